/* A peer of the interop cases by ngtcp2 with GnuTLS, as distributions ship them: see `README.md` in the folder above. */

#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#define ALPN "hq-interop"
/* Byte i of every answer is i modulo this. */
#define PERIOD 251
#define CHUNK (16 << 10)
/* Application error codes. */
#define RESET 17
#define STOP 18
#define CLOSE_BY_CLIENT 20
#define DATAGRAMS 20
#define DATAGRAM_LEN 1000
#define STOPPED_LEN (20 << 20)
#define RESET_LEN 100000
/* A version that nobody speaks (RFC 9000 section 15). */
#define RESERVED 0xbabababau
#define MAX_STREAMS 1000
#define MAX_CONNECTIONS 64
#define MAX_IDS 4096
#define MAX_SOCKETS 2
/* Packets of one connection before the program looks for others. */
#define BURST 32
#define MS (NGTCP2_SECONDS / 1000)

enum answer { NONE, BODY, THEN_RESET, STOPPED, CLOSED };

struct stream {
    int64_t id;
    /* The request as far as it came or, of a client, as it is. */
    char request[64];
    size_t request_len;
    enum answer answer;
    /* What is to be sent: `text`, or so many bytes of a body. */
    char text[64];
    int is_text;
    uint64_t len, sent;
    int fin, fin_sent, blocked, ended;
    /* What a client received. */
    gnutls_hash_hd_t digest;
    uint64_t got;
    char first[32];
    int done;
    int64_t reset;
};

struct endpoint;

struct connection {
    struct endpoint *endpoint;
    ngtcp2_conn *conn;
    ngtcp2_crypto_conn_ref ref;
    gnutls_session_t tls;
    ngtcp2_connection_close_error end;
    struct stream *streams;
    size_t count;
    int gone, closing, completed, confirmed, asked_early, rejected, has_ticket;
    uint8_t farewell[1500];
    size_t farewell_len;
    int farewell_local;
    ngtcp2_path_storage farewell_path;
    /* Datagrams that are to be sent. */
    uint8_t datagrams[64][DATAGRAM_LEN];
    size_t datagram_count;
    /* Of a client: which came back. */
    uint8_t back[DATAGRAMS];
    ngtcp2_tstamp again;
};

struct endpoint {
    const char *name;
    int is_server, quiet_first;
    int sockets[MAX_SOCKETS];
    struct sockaddr_storage locals[MAX_SOCKETS];
    socklen_t local_len;
    size_t socket_count;
    gnutls_certificate_credentials_t credentials;
    gnutls_datum_t ticket_key;
    gnutls_anti_replay_t anti_replay;
    uint8_t secret[32];
    struct connection *connections[MAX_CONNECTIONS];
    size_t count;
    struct { ngtcp2_cid id; struct connection *of; } ids[MAX_IDS];
    size_t id_count;
    int64_t stopped, closed;
};

static uint8_t pattern[PERIOD + CHUNK];

static ngtcp2_tstamp now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ngtcp2_tstamp)ts.tv_sec * NGTCP2_SECONDS + (ngtcp2_tstamp)ts.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void fail_by(const char *what, int error) {
    fprintf(stderr, "%s: %s\n", what, ngtcp2_strerror(error));
    exit(1);
}

static void random_bytes(void *to, size_t len) {
    if (gnutls_rnd(GNUTLS_RND_RANDOM, to, len)) fail("no random bytes");
}

/* The length of connection IDs that a case asks for. */
static size_t id_len(const char *name) {
    return strncmp(name, "cid-", 4) ? 16 : (size_t)atoi(name + 4);
}

static int is_case(const struct endpoint *endpoint, const char *name) {
    return !strcmp(endpoint->name, name);
}

/* Lost handshakes have their own patience. */
static ngtcp2_duration patience(const char *name) {
    int hard = !strcmp(name, "handshakeloss") || !strcmp(name, "handshakecorruption");
    return (hard ? 120 : 30) * NGTCP2_SECONDS;
}

static int asks_early(const char *name) {
    return !strcmp(name, "zerortt") || !strcmp(name, "zerortt-refused");
}

/* Sockets. */

static void add_socket(struct endpoint *endpoint, int family, const struct sockaddr *at, socklen_t len) {
    int on = 1, number = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (number < 0 || bind(number, at, len)) fail("no socket");
    if (family == AF_INET) setsockopt(number, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    else setsockopt(number, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    /* A burst of a whole window. */
    int size = 4 << 20;
    setsockopt(number, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    size_t place = endpoint->socket_count++;
    endpoint->sockets[place] = number;
    endpoint->local_len = sizeof endpoint->locals[place];
    getsockname(number, (struct sockaddr *)&endpoint->locals[place], &endpoint->local_len);
}

static void send_datagram(struct endpoint *endpoint, const ngtcp2_path *path, uint8_t ecn, const uint8_t *data, size_t len) {
    size_t place = 0;
    for (size_t i = 0; i < endpoint->socket_count; i++)
        if (!memcmp(&endpoint->locals[i], path->local.addr, path->local.addrlen)) place = i;
    struct iovec part = {(void *)data, len};
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = {0};
    struct msghdr message = {.msg_name = path->remote.addr, .msg_namelen = path->remote.addrlen, .msg_iov = &part, .msg_iovlen = 1};
    int mark = ecn;
    if (ecn) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        int v4 = path->remote.addr->sa_family == AF_INET;
        head->cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
        head->cmsg_type = v4 ? IP_TOS : IPV6_TCLASS;
        head->cmsg_len = CMSG_LEN(sizeof mark);
        memcpy(CMSG_DATA(head), &mark, sizeof mark);
    }
    /* What the system has no room for is lost. */
    if (sendmsg(endpoint->sockets[place], &message, 0) < 0 && errno == EINVAL) fail("sendmsg");
}

static ssize_t receive(int number, uint8_t *to, size_t size, struct sockaddr_storage *from, socklen_t *from_len, uint8_t *ecn) {
    struct iovec part = {to, size};
    union { char bytes[CMSG_SPACE(sizeof(int)) + 64]; struct cmsghdr align; } control;
    struct msghdr message = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t len;
    do {
        len = recvmsg(number, &message, 0);
    } while (len < 0 && errno == ECONNREFUSED);
    *from_len = message.msg_namelen;
    *ecn = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); len >= 0 && head; head = CMSG_NXTHDR(&message, head))
        if ((head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_TOS)
            || (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_TCLASS))
            *ecn = *CMSG_DATA(head) & 3;
    return len;
}

/* Connection IDs. */

static void know(struct endpoint *endpoint, struct connection *of, const ngtcp2_cid *id) {
    if (endpoint->id_count == MAX_IDS) fail("too many connection IDs");
    endpoint->ids[endpoint->id_count].id = *id;
    endpoint->ids[endpoint->id_count++].of = of;
}

static void forget(struct endpoint *endpoint, const struct connection *of) {
    size_t left = 0;
    for (size_t i = 0; i < endpoint->id_count; i++)
        if (endpoint->ids[i].of != of) endpoint->ids[left++] = endpoint->ids[i];
    endpoint->id_count = left;
}

static struct connection *find(struct endpoint *endpoint, const uint8_t *id, size_t len) {
    for (size_t i = endpoint->id_count; i-- > 0;)
        if (endpoint->ids[i].id.datalen == len && !memcmp(endpoint->ids[i].id.data, id, len)) return endpoint->ids[i].of;
    return NULL;
}

static void new_id(ngtcp2_cid *id, size_t len) {
    id->datalen = len;
    random_bytes(id->data, len);
}

/* Streams. */

static struct stream *stream_of(struct connection *connection, int64_t id) {
    for (size_t i = 0; i < connection->count; i++)
        if (connection->streams[i].id == id) return &connection->streams[i];
    return NULL;
}

static struct stream *add_stream(struct connection *connection, int64_t id) {
    if (!connection->streams) connection->streams = calloc(MAX_STREAMS, sizeof *connection->streams);
    if (connection->count == MAX_STREAMS) fail("too many streams");
    struct stream *stream = &connection->streams[connection->count++];
    stream->id = id;
    stream->reset = -1;
    return stream;
}

/* What a client asks for. It is opened as soon as the server allows it. */
static struct stream *ask(struct connection *connection, const char *verb, uint64_t number) {
    struct stream *stream = add_stream(connection, -1);
    snprintf(stream->text, sizeof stream->text, "%s /%llu\r\n", verb, (unsigned long long)number);
    stream->is_text = stream->fin = 1;
    stream->len = strlen(stream->text);
    if (gnutls_hash_init(&stream->digest, GNUTLS_DIG_SHA256)) fail("no SHA-256");
    return stream;
}

static void answer_with(struct stream *stream, int64_t number) {
    snprintf(stream->text, sizeof stream->text, "%lld", (long long)number);
    stream->is_text = stream->fin = 1;
    stream->len = strlen(stream->text);
    stream->answer = NONE;
}

static void begin_answer(struct connection *connection, struct stream *stream) {
    char verb[16];
    unsigned long long number = 0;
    stream->request[stream->request_len] = 0;
    if (sscanf(stream->request, "%15s /%llu", verb, &number) != 2) return;
    if (!strcmp(verb, "STOPPED")) stream->answer = STOPPED;
    else if (!strcmp(verb, "CLOSED")) stream->answer = CLOSED;
    else if (!strcmp(verb, "CLOSE")) {
        ngtcp2_connection_close_error_set_application_error(&connection->end, number, (const uint8_t *)"bye", 3);
        connection->closing = 1;
    } else {
        stream->answer = strcmp(verb, "RESET") ? BODY : THEN_RESET;
        stream->len = number;
        stream->fin = stream->answer == BODY;
    }
}

/* Callbacks. */

static ngtcp2_conn *conn_of(ngtcp2_crypto_conn_ref *ref) {
    return ((struct connection *)ref->user_data)->conn;
}

static void on_rand(uint8_t *to, size_t len, const ngtcp2_rand_ctx *context) {
    (void)context;
    random_bytes(to, len);
}

static int on_new_id(ngtcp2_conn *conn, ngtcp2_cid *id, uint8_t *token, size_t len, void *user) {
    (void)conn;
    struct connection *connection = user;
    new_id(id, len);
    random_bytes(token, NGTCP2_STATELESS_RESET_TOKENLEN);
    know(connection->endpoint, connection, id);
    return 0;
}

static int on_data(ngtcp2_conn *conn, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *data, size_t len, void *user, void *unused) {
    (void)offset, (void)unused;
    struct connection *connection = user;
    struct stream *stream = stream_of(connection, id);
    ngtcp2_conn_extend_max_stream_offset(conn, id, len);
    ngtcp2_conn_extend_max_offset(conn, len);
    if (connection->endpoint->is_server) {
        if (!stream) stream = add_stream(connection, id);
        if (stream->request_len + len >= sizeof stream->request) return NGTCP2_ERR_CALLBACK_FAILURE;
        memcpy(stream->request + stream->request_len, data, len);
        stream->request_len += len;
        if (flags & NGTCP2_STREAM_DATA_FLAG_FIN) begin_answer(connection, stream);
        return 0;
    }
    if (!stream) return 0;
    if (len) gnutls_hash(stream->digest, data, len);
    for (size_t i = 0; i < len && stream->got + i + 1 < sizeof stream->first; i++) stream->first[stream->got + i] = (char)data[i];
    stream->got += len;
    if (flags & NGTCP2_STREAM_DATA_FLAG_FIN) stream->done = 1;
    return 0;
}

static int on_reset(ngtcp2_conn *conn, int64_t id, uint64_t size, uint64_t code, void *user, void *unused) {
    (void)conn, (void)size, (void)unused;
    struct stream *stream = stream_of(user, id);
    if (stream) stream->reset = (int64_t)code, stream->done = 1;
    return 0;
}

static int on_stream_close(ngtcp2_conn *conn, uint32_t flags, int64_t id, uint64_t code, void *user, void *unused) {
    (void)unused;
    struct connection *connection = user;
    struct stream *stream = stream_of(connection, id);
    if (!stream) return 0;
    stream->ended = 1;
    /* The code of a client's STOP_SENDING: the library has no other call for it. */
    if (stream->answer == BODY && !stream->fin_sent && flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET)
        connection->endpoint->stopped = (int64_t)code;
    if (connection->endpoint->is_server) ngtcp2_conn_extend_max_streams_bidi(conn, 1);
    return 0;
}

static int on_completed(ngtcp2_conn *conn, void *user) {
    struct connection *connection = user;
    connection->completed = 1;
    if (connection->endpoint->is_server) return gnutls_session_ticket_send(connection->tls, 1, 0) ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
    if (connection->asked_early && !(gnutls_session_get_flags(connection->tls) & GNUTLS_SFLAGS_EARLY_DATA))
        return ngtcp2_conn_early_data_rejected(conn);
    return 0;
}

static int on_confirmed(ngtcp2_conn *conn, void *user) {
    (void)conn;
    ((struct connection *)user)->confirmed = 1;
    return 0;
}

static int on_rejected(ngtcp2_conn *conn, void *user) {
    (void)conn;
    struct connection *connection = user;
    connection->rejected = 1;
    for (size_t i = 0; i < connection->count; i++) {
        connection->streams[i].id = -1;
        connection->streams[i].sent = 0;
        connection->streams[i].fin_sent = connection->streams[i].ended = 0;
    }
    return 0;
}

static int on_datagram(ngtcp2_conn *conn, uint32_t flags, const uint8_t *data, size_t len, void *user) {
    (void)conn, (void)flags;
    struct connection *connection = user;
    if (len != DATAGRAM_LEN) return NGTCP2_ERR_CALLBACK_FAILURE;
    if (!connection->endpoint->is_server) {
        if (data[0] < DATAGRAMS) connection->back[data[0]] = 1;
    } else if (connection->datagram_count < 64) {
        memcpy(connection->datagrams[connection->datagram_count++], data, len);
    }
    return 0;
}

static int on_preferred(ngtcp2_conn *conn, ngtcp2_path *to, const ngtcp2_preferred_addr *address, void *user) {
    (void)user;
    const ngtcp2_path *path = ngtcp2_conn_get_path(conn);
    if (path->remote.addr->sa_family != AF_INET || !address->ipv4_present) return 0;
    ngtcp2_addr_copy_byte(&to->local, path->local.addr, path->local.addrlen);
    ngtcp2_addr_copy_byte(&to->remote, (const ngtcp2_sockaddr *)&address->ipv4, sizeof address->ipv4);
    return 0;
}

static const ngtcp2_callbacks *callbacks(int is_server) {
    static ngtcp2_callbacks all;
    all = (ngtcp2_callbacks){
        .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
        .handshake_completed = on_completed,
        .encrypt = ngtcp2_crypto_encrypt_cb,
        .decrypt = ngtcp2_crypto_decrypt_cb,
        .hp_mask = ngtcp2_crypto_hp_mask_cb,
        .recv_stream_data = on_data,
        .stream_close = on_stream_close,
        .rand = on_rand,
        .get_new_connection_id = on_new_id,
        .update_key = ngtcp2_crypto_update_key_cb,
        .stream_reset = on_reset,
        .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
        .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
        .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
        .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
        .recv_datagram = on_datagram,
    };
    if (is_server) {
        all.recv_client_initial = ngtcp2_crypto_recv_client_initial_cb;
    } else {
        all.client_initial = ngtcp2_crypto_client_initial_cb;
        all.recv_retry = ngtcp2_crypto_recv_retry_cb;
        all.handshake_confirmed = on_confirmed;
        all.early_data_rejected = on_rejected;
        all.select_preferred_addr = on_preferred;
    }
    return &all;
}

/* TLS. */

static void priorities(struct endpoint *endpoint, gnutls_session_t tls) {
    const char *suites = is_case(endpoint, "chacha20") ? "+CHACHA20-POLY1305" : "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305";
    char text[300];
    snprintf(text, sizeof text,
             "%%DISABLE_TLS13_COMPAT_MODE:NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:%s:"
             "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1",
             suites);
    if (gnutls_priority_set_direct(tls, text, NULL)) fail("no such priorities");
}

static int on_ticket(gnutls_session_t tls, unsigned kind, unsigned when, unsigned incoming, const gnutls_datum_t *message) {
    (void)kind, (void)when, (void)message;
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(tls);
    if (incoming) ((struct connection *)ref->user_data)->has_ticket = 1;
    return 0;
}

static int never_seen(void *unused, time_t until, const gnutls_datum_t *key, const gnutls_datum_t *data) {
    (void)unused, (void)until, (void)key, (void)data;
    return 0;
}

static void begin_tls(struct connection *connection, const gnutls_datum_t *session) {
    struct endpoint *endpoint = connection->endpoint;
    int is_server = endpoint->is_server;
    unsigned flags = GNUTLS_ENABLE_EARLY_DATA | GNUTLS_NO_END_OF_EARLY_DATA;
    flags |= is_server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET : GNUTLS_CLIENT;
    if (gnutls_init(&connection->tls, flags)) fail("no TLS");
    priorities(endpoint, connection->tls);
    int failed = is_server ? ngtcp2_crypto_gnutls_configure_server_session(connection->tls)
                           : ngtcp2_crypto_gnutls_configure_client_session(connection->tls);
    if (failed) fail("TLS cannot be set up");
    connection->ref = (ngtcp2_crypto_conn_ref){conn_of, connection};
    gnutls_session_set_ptr(connection->tls, &connection->ref);
    gnutls_credentials_set(connection->tls, GNUTLS_CRD_CERTIFICATE, endpoint->credentials);
    gnutls_datum_t alpn = {(unsigned char *)ALPN, sizeof ALPN - 1};
    gnutls_alpn_set_protocols(connection->tls, &alpn, 1, GNUTLS_ALPN_MANDATORY);
    if (is_server) {
        gnutls_session_ticket_enable_server(connection->tls, &endpoint->ticket_key);
        gnutls_anti_replay_enable(connection->tls, endpoint->anti_replay);
        gnutls_record_set_max_early_data_size(connection->tls, 0xffffffffu);
    } else {
        gnutls_server_name_set(connection->tls, GNUTLS_NAME_DNS, "localhost", 9);
        gnutls_session_set_verify_cert(connection->tls, "localhost", 0);
        gnutls_handshake_set_hook_function(connection->tls, GNUTLS_HANDSHAKE_NEW_SESSION_TICKET, GNUTLS_HOOK_POST, on_ticket);
        if (session && gnutls_session_set_data(connection->tls, session->data, session->size)) fail("the session is of no use");
    }
    ngtcp2_conn_set_tls_native_handle(connection->conn, connection->tls);
}

static void on_log(void *user, const char *format, ...) {
    (void)user;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void configure(const struct endpoint *endpoint, ngtcp2_settings *settings, ngtcp2_transport_params *params) {
    ngtcp2_settings_default(settings);
    settings->initial_ts = now();
    settings->handshake_timeout = patience(endpoint->name);
    if (getenv("NGTCP2_LOG")) settings->log_printf = on_log;
    ngtcp2_transport_params_default(params);
    params->initial_max_data = 10 << 20;
    params->initial_max_stream_data_bidi_local = 1 << 20;
    params->initial_max_stream_data_bidi_remote = 1 << 20;
    params->initial_max_stream_data_uni = 1 << 20;
    params->initial_max_streams_bidi = 100;
    params->initial_max_streams_uni = 3;
    params->max_idle_timeout = patience(endpoint->name);
    params->max_datagram_frame_size = 65535;
    params->active_connection_id_limit = 7;
}

/* What a connection has to send. Whether there may be more at once. */

static void send_packet(struct connection *connection, const ngtcp2_path *path, uint8_t ecn, const uint8_t *data, size_t len) {
    send_datagram(connection->endpoint, path, ecn, data, len);
}

static void close_with(struct connection *connection) {
    ngtcp2_pkt_info info;
    ngtcp2_path_storage_zero(&connection->farewell_path);
    ngtcp2_ssize len = ngtcp2_conn_write_connection_close(connection->conn, &connection->farewell_path.path, &info, connection->farewell,
                                                          sizeof connection->farewell, &connection->end, now());
    connection->gone = 1;
    if (len <= 0) return;
    connection->farewell_len = (size_t)len;
    send_packet(connection, &connection->farewell_path.path, 0, connection->farewell, connection->farewell_len);
}

static void give_up(struct connection *connection, int error) {
    fprintf(stderr, "the connection ends: %s\n", ngtcp2_strerror(error));
    if (error == NGTCP2_ERR_CRYPTO)
        ngtcp2_connection_close_error_set_transport_error_tls_alert(&connection->end, ngtcp2_conn_get_tls_alert(connection->conn), NULL, 0);
    else
        ngtcp2_connection_close_error_set_transport_error_liberr(&connection->end, error, NULL, 0);
    close_with(connection);
}

static struct stream *next_to_send(struct connection *connection) {
    for (size_t i = 0; i < connection->count; i++) {
        struct stream *stream = &connection->streams[i];
        if (stream->answer == STOPPED && connection->endpoint->stopped >= 0) answer_with(stream, connection->endpoint->stopped);
        if (stream->answer == CLOSED && connection->endpoint->closed >= 0) answer_with(stream, connection->endpoint->closed);
        if (stream->ended || stream->blocked) continue;
        if (!connection->endpoint->is_server && stream->id < 0 && ngtcp2_conn_open_bidi_stream(connection->conn, &stream->id, NULL)) {
            stream->id = -1;
            return NULL;
        }
        if (stream->sent < stream->len || (stream->fin && !stream->fin_sent)) return stream;
        if (stream->answer == THEN_RESET) {
            stream->answer = NONE;
            ngtcp2_conn_shutdown_stream_write(connection->conn, stream->id, RESET);
        }
    }
    return NULL;
}

static int flush(struct connection *connection) {
    uint8_t packet[1500];
    for (size_t i = 0; i < connection->count; i++) connection->streams[i].blocked = 0;
    for (int count = 0; !connection->gone; count++) {
        if (connection->closing) return close_with(connection), 0;
        if (count == BURST) return 1;
        ngtcp2_path_storage path;
        ngtcp2_pkt_info info = {0};
        ngtcp2_path_storage_zero(&path);
        ngtcp2_tstamp at = now();
        ngtcp2_ssize len;
        if (connection->datagram_count && connection->completed) {
            ngtcp2_vec part = {connection->datagrams[connection->datagram_count - 1], DATAGRAM_LEN};
            int taken = 0;
            len = ngtcp2_conn_writev_datagram(connection->conn, &path.path, &info, packet, sizeof packet, &taken, 0, 0, &part, 1, at);
            if (taken) connection->datagram_count--;
            if (len == NGTCP2_ERR_INVALID_STATE || len == NGTCP2_ERR_INVALID_ARGUMENT) fail_by("no datagrams", (int)len);
            if (len > 0) {
                send_packet(connection, &path.path, info.ecn, packet, (size_t)len);
                continue;
            }
            if (len == 0) break;
        }
        struct stream *stream = next_to_send(connection);
        ngtcp2_vec part = {NULL, 0};
        ngtcp2_ssize written = -1;
        uint32_t flags = 0;
        if (stream) {
            uint64_t left = stream->len - stream->sent;
            part.len = left < CHUNK ? (size_t)left : CHUNK;
            part.base = stream->is_text ? (uint8_t *)stream->text + stream->sent : pattern + stream->sent % PERIOD;
            if (stream->fin && part.len == left) flags = NGTCP2_WRITE_STREAM_FLAG_FIN;
        }
        len = ngtcp2_conn_writev_stream(connection->conn, &path.path, &info, packet, sizeof packet, &written, flags,
                                        stream ? stream->id : -1, &part, part.len ? 1 : 0, at);
        if (len == NGTCP2_ERR_STREAM_DATA_BLOCKED || len == NGTCP2_ERR_STREAM_SHUT_WR || len == NGTCP2_ERR_STREAM_NOT_FOUND) {
            stream->blocked = 1;
            stream->ended |= len != NGTCP2_ERR_STREAM_DATA_BLOCKED;
            continue;
        }
        if (len < 0) return give_up(connection, (int)len), 0;
        if (stream && written >= 0) {
            stream->sent += (uint64_t)written;
            stream->fin_sent = flags && (size_t)written == part.len;
        }
        if (len == 0) break;
        send_packet(connection, &path.path, info.ecn, packet, (size_t)len);
    }
    if (!connection->gone) ngtcp2_conn_update_pkt_tx_time(connection->conn, now());
    return 0;
}

/* One datagram for a connection. */
static int take(struct connection *connection, const ngtcp2_path *path, uint8_t ecn, const uint8_t *data, size_t len) {
    if (connection->gone) {
        if (connection->farewell_len)
            send_packet(connection, &connection->farewell_path.path, 0, connection->farewell, connection->farewell_len);
        return 0;
    }
    ngtcp2_pkt_info info = {.ecn = ecn};
    int error = ngtcp2_conn_read_pkt(connection->conn, path, &info, data, len, now());
    if (!error) return 0;
    if (error == NGTCP2_ERR_DRAINING) {
        ngtcp2_conn_get_connection_close_error(connection->conn, &connection->end);
        connection->gone = 1;
        if (connection->end.type == NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_APPLICATION && connection->endpoint->is_server)
            connection->endpoint->closed = (int64_t)connection->end.error_code;
    } else if (error == NGTCP2_ERR_DROP_CONN || error == NGTCP2_ERR_RETRY || error == NGTCP2_ERR_RECV_VERSION_NEGOTIATION) {
        connection->gone = 1;
    } else {
        give_up(connection, error);
    }
    return error;
}

/* Waits for datagrams, timers and the end of standard input. */
static void wait_for(struct endpoint *endpoint, int at_once, ngtcp2_tstamp until) {
    struct pollfd wanted[MAX_SOCKETS + 1];
    for (size_t i = 0; i < endpoint->socket_count; i++) wanted[i] = (struct pollfd){endpoint->sockets[i], POLLIN, 0};
    size_t count = endpoint->socket_count;
    if (endpoint->is_server) wanted[count++] = (struct pollfd){0, POLLIN, 0};
    ngtcp2_tstamp at = now();
    struct timespec left = {0, 0};
    if (!at_once && until > at) {
        ngtcp2_duration wait = until == UINT64_MAX ? 10 * NGTCP2_SECONDS : until - at;
        left.tv_sec = (time_t)(wait / NGTCP2_SECONDS);
        left.tv_nsec = (long)(wait % NGTCP2_SECONDS);
    }
    ppoll(wanted, count, &left, NULL);
    char none[16];
    if (endpoint->is_server && wanted[count - 1].revents && read(0, none, sizeof none) <= 0) exit(0);
}

static ngtcp2_tstamp earlier(ngtcp2_tstamp a, ngtcp2_tstamp b) {
    return a < b ? a : b;
}

static void expire(struct connection *connection) {
    if (connection->gone || ngtcp2_conn_get_expiry(connection->conn) > now()) return;
    int error = ngtcp2_conn_handle_expiry(connection->conn, now());
    if (error == NGTCP2_ERR_IDLE_CLOSE || error == NGTCP2_ERR_DROP_CONN) connection->gone = 1;
    else if (error) give_up(connection, error);
}

/* The server. */

static struct connection *accept_one(struct endpoint *endpoint, const ngtcp2_path *path, const uint8_t *data, size_t len) {
    ngtcp2_pkt_hd head;
    if (ngtcp2_accept(&head, data, len)) return NULL;
    uint8_t out[1500];
    ngtcp2_cid id, original = head.dcid;
    new_id(&id, id_len(endpoint->name));
    int retried = 0;
    if (is_case(endpoint, "retry")) {
        if (!head.token.len) {
            uint8_t token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN];
            ngtcp2_ssize size = ngtcp2_crypto_generate_retry_token(token, endpoint->secret, sizeof endpoint->secret, head.version,
                                                                   path->remote.addr, path->remote.addrlen, &id, &head.dcid, now());
            ngtcp2_ssize retry = ngtcp2_crypto_write_retry(out, sizeof out, head.version, &head.scid, &id, &head.dcid, token, (size_t)size);
            if (retry > 0) send_datagram(endpoint, path, 0, out, (size_t)retry);
            return NULL;
        }
        if (ngtcp2_crypto_verify_retry_token(&original, head.token.base, head.token.len, endpoint->secret, sizeof endpoint->secret, head.version,
                                             path->remote.addr, path->remote.addrlen, &head.dcid, 10 * NGTCP2_SECONDS, now()))
            return NULL;
        retried = 1;
    }
    if (endpoint->count == MAX_CONNECTIONS) return NULL;
    struct connection *connection = calloc(1, sizeof *connection);
    connection->endpoint = endpoint;
    ngtcp2_connection_close_error_default(&connection->end);
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    configure(endpoint, &settings, &params);
    params.original_dcid = original;
    if (retried) {
        params.retry_scid = head.dcid;
        params.retry_scid_present = 1;
        settings.token = head.token;
    }
    params.stateless_reset_token_present = 1;
    random_bytes(params.stateless_reset_token, sizeof params.stateless_reset_token);
    int error = ngtcp2_conn_server_new(&connection->conn, &head.scid, &id, path, head.version, callbacks(1), &settings, &params, NULL, connection);
    if (error) fail_by("no connection", error);
    begin_tls(connection, NULL);
    know(endpoint, connection, &head.dcid);
    know(endpoint, connection, &id);
    endpoint->connections[endpoint->count++] = connection;
    return connection;
}

static void route(struct endpoint *endpoint, const ngtcp2_path *path, uint8_t ecn, const uint8_t *data, size_t len) {
    ngtcp2_version_cid ids;
    int error = ngtcp2_pkt_decode_version_cid(&ids, data, len, id_len(endpoint->name));
    if (error == NGTCP2_ERR_VERSION_NEGOTIATION) {
        uint8_t out[200];
        uint32_t versions[] = {RESERVED, NGTCP2_PROTO_VER_V1};
        ngtcp2_ssize size = ngtcp2_pkt_write_version_negotiation(out, sizeof out, 0x55, ids.scid, ids.scidlen, ids.dcid, ids.dcidlen, versions, 2);
        if (size > 0) send_datagram(endpoint, path, 0, out, (size_t)size);
    }
    if (error) return;
    struct connection *connection = find(endpoint, ids.dcid, ids.dcidlen);
    int begins = !connection && data[0] & 0x80;
    if (begins) connection = accept_one(endpoint, path, data, len);
    /* What begins with a garbled packet is no connection: its client tries again. */
    if (connection && take(connection, path, ecn, data, len) && begins) forget(endpoint, connection);
}

static void serve(struct endpoint *endpoint) {
    static uint8_t data[65536];
    for (int more = 0;;) {
        ngtcp2_tstamp until = UINT64_MAX;
        for (size_t i = 0; i < endpoint->count; i++)
            if (!endpoint->connections[i]->gone) until = earlier(until, ngtcp2_conn_get_expiry(endpoint->connections[i]->conn));
        wait_for(endpoint, more, until);
        struct sockaddr_storage from;
        socklen_t from_len;
        uint8_t ecn;
        ssize_t len;
        while ((len = receive(endpoint->sockets[0], data, sizeof data, &from, &from_len, &ecn)) >= 0) {
            ngtcp2_path path = {{(struct sockaddr *)&endpoint->locals[0], endpoint->local_len}, {(struct sockaddr *)&from, from_len}, NULL};
            if (len) route(endpoint, &path, ecn, data, (size_t)len);
        }
        more = 0;
        for (size_t i = 0; i < endpoint->count; i++) {
            expire(endpoint->connections[i]);
            more |= flush(endpoint->connections[i]);
        }
    }
}

/* The client. */

struct kept {
    gnutls_datum_t session;
    ngtcp2_transport_params params;
    int there;
};

static struct connection *dial(struct endpoint *endpoint, const struct sockaddr *remote, socklen_t remote_len, uint32_t version, uint32_t original,
                               const struct kept *kept) {
    struct connection *connection = calloc(1, sizeof *connection);
    connection->endpoint = endpoint;
    ngtcp2_connection_close_error_default(&connection->end);
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    configure(endpoint, &settings, &params);
    static uint32_t preferred[] = {NGTCP2_PROTO_VER_V1};
    settings.original_version = original;
    settings.preferred_versions = preferred;
    settings.preferred_versionslen = 1;
    ngtcp2_cid theirs, ours;
    new_id(&theirs, 16);
    new_id(&ours, id_len(endpoint->name));
    ngtcp2_path path = {{(struct sockaddr *)&endpoint->locals[0], endpoint->local_len}, {(struct sockaddr *)remote, remote_len}, NULL};
    int error = ngtcp2_conn_client_new(&connection->conn, &theirs, &ours, &path, version, callbacks(0), &settings, &params, NULL, connection);
    if (error) fail_by("no connection", error);
    begin_tls(connection, kept && kept->there ? &kept->session : NULL);
    connection->asked_early = kept && kept->there && asks_early(endpoint->name);
    if (connection->asked_early) ngtcp2_conn_set_early_remote_transport_params(connection->conn, &kept->params);
    return connection;
}

static void print_got(struct stream *stream) {
    uint8_t digest[32];
    gnutls_hash_output(stream->digest, digest);
    printf("got %llu ", (unsigned long long)stream->got);
    for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
    printf("\n");
}

/* Goes on with what a case is about after its downloads: 1 when that is over. */
static int act(struct connection *connection, size_t files, char *fact, size_t size) {
    const char *name = connection->endpoint->name;
    struct stream *first = connection->count > files ? &connection->streams[files] : NULL;
    if (!strcmp(name, "reset")) {
        if (!first) ask(connection, "RESET", RESET_LEN);
        else if (first->done) return snprintf(fact, size, "reset %lld", (long long)first->reset), 1;
    } else if (!strcmp(name, "stop")) {
        if (!first) ask(connection, "GET", STOPPED_LEN);
        else if (connection->count == files + 1) {
            if (!first->got) return 0;
            ngtcp2_conn_shutdown_stream_read(connection->conn, first->id, STOP);
            ask(connection, "STOPPED", 0);
        } else if (connection->streams[files + 1].done)
            return snprintf(fact, size, "stopped %s", connection->streams[files + 1].first), 1;
    } else if (!strcmp(name, "close-server")) {
        if (!first) ask(connection, "CLOSE", 19);
    } else if (!strcmp(name, "close-client")) {
        if (!first) ask(connection, "CLOSED", 0);
        else if (first->done) return snprintf(fact, size, "closed %s", first->first), 1;
    } else if (!strcmp(name, "datagrams")) {
        size_t back = 0;
        for (int i = 0; i < DATAGRAMS; i++) back += connection->back[i];
        if (back == DATAGRAMS) return snprintf(fact, size, "datagrams %d", DATAGRAMS), 1;
        if (connection->again <= now()) {
            connection->datagram_count = 0;
            for (int i = 0; i < DATAGRAMS; i++)
                if (!connection->back[i]) memset(connection->datagrams[connection->datagram_count++], i, DATAGRAM_LEN);
            connection->again = now() + 300 * MS;
        }
    } else {
        return 1;
    }
    return 0;
}

/* One connection, to its end. `first`: it is only made for what the second one goes on with. */
static void download(struct endpoint *endpoint, const struct sockaddr *remote, socklen_t remote_len, char *sizes, int is_first, struct kept *kept) {
    static uint8_t data[65536];
    uint32_t version = is_case(endpoint, "versionnegotiation") && !is_first ? RESERVED : NGTCP2_PROTO_VER_V1;
    struct connection *connection = dial(endpoint, remote, remote_len, version, 0, is_first ? NULL : kept);
    size_t files = 0;
    for (char *size = sizes; size; size = strchr(size, ',') ? strchr(size, ',') + 1 : NULL, files++) ask(connection, "GET", strtoull(size, NULL, 10));
    uint64_t first_size = strtoull(sizes, NULL, 10);
    char fact[100] = "";
    int moved = 0, over = 0;
    for (int more = 0; !over;) {
        more |= flush(connection);
        ngtcp2_tstamp until = connection->gone ? 0 : ngtcp2_conn_get_expiry(connection->conn);
        if (connection->again) until = earlier(until, connection->again);
        wait_for(endpoint, more, until);
        more = 0;
        for (size_t i = 0; i < endpoint->socket_count; i++) {
            struct sockaddr_storage from;
            socklen_t from_len;
            uint8_t ecn;
            ssize_t len;
            while ((len = receive(endpoint->sockets[i], data, sizeof data, &from, &from_len, &ecn)) >= 0) {
                ngtcp2_path path = {{(struct sockaddr *)&endpoint->locals[i], endpoint->local_len}, {(struct sockaddr *)&from, from_len}, NULL};
                int error = len ? take(connection, &path, ecn, data, (size_t)len) : 0;
                if (error == NGTCP2_ERR_RECV_VERSION_NEGOTIATION) {
                    struct connection *again = dial(endpoint, remote, remote_len, NGTCP2_PROTO_VER_V1, version, NULL);
                    again->streams = connection->streams;
                    again->count = connection->count;
                    connection = again;
                }
            }
        }
        expire(connection);
        if (connection->gone) {
            ngtcp2_connection_close_error *end = &connection->end;
            if (!is_case(endpoint, "close-server") || end->type != NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_APPLICATION)
                fail("the connection ended early");
            snprintf(fact, sizeof fact, "closed %llu", (unsigned long long)end->error_code);
            break;
        }
        if (!moved && connection->confirmed && !is_first && connection->streams[0].got >= first_size / 4) {
            moved = 1;
            int error = 0;
            if (is_case(endpoint, "keyupdate")) error = ngtcp2_conn_initiate_key_update(connection->conn, now());
            if (is_case(endpoint, "connectionmigration")) {
                struct sockaddr_in host = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
                add_socket(endpoint, AF_INET, (struct sockaddr *)&host, sizeof host);
                ngtcp2_path path = {{(struct sockaddr *)&endpoint->locals[1], endpoint->local_len}, {(struct sockaddr *)remote, remote_len}, NULL};
                error = ngtcp2_conn_initiate_migration(connection->conn, &path, now());
            }
            if (error) fail_by(endpoint->name, error);
        }
        over = 1;
        for (size_t i = 0; i < files; i++) over &= connection->streams[i].done;
        if (over && is_first) over = connection->has_ticket || is_case(endpoint, "close-client");
        else if (over) over = act(connection, files, fact, sizeof fact);
    }
    if (is_first) {
        if (connection->has_ticket) {
            kept->there = !gnutls_session_get_data2(connection->tls, &kept->session);
            kept->params = *ngtcp2_conn_get_remote_transport_params(connection->conn);
        }
    } else {
        for (size_t i = 0; i < files; i++) print_got(&connection->streams[i]);
        if (*fact) printf("%s\n", fact);
        if (gnutls_session_is_resumed(connection->tls)) printf("resumed\n");
        if (connection->asked_early && !connection->rejected) printf("early\n");
        printf("version 0x%x\n", ngtcp2_conn_get_negotiated_version(connection->conn));
    }
    if (!connection->gone) {
        uint64_t code = is_case(endpoint, "close-client") && is_first ? CLOSE_BY_CLIENT : 0;
        ngtcp2_connection_close_error_set_application_error(&connection->end, code, (const uint8_t *)"bye", 3);
        close_with(connection);
    }
}

static void resolve(const char *host, const char *port, struct sockaddr_storage *to, socklen_t *len) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    if (getaddrinfo(host, port, &hints, &found)) fail("no address");
    memcpy(to, found->ai_addr, found->ai_addrlen);
    *len = found->ai_addrlen;
    freeaddrinfo(found);
}

static const char *lacks(const char *name, int is_client) {
    if (!strcmp(name, "v2")) return "the library of this release speaks a draft of version 2";
    if (!strcmp(name, "cid-0") && !is_client) return "the library's servers need connection IDs";
    if (!strcmp(name, "amplificationlimit") && !is_client) return "GnuTLS leaves certificates out that are not needed, and so does not go beyond the limit";
    if (!strcmp(name, "preferredaddress") && !is_client) return "the program has no setting for it";
    return NULL;
}

int main(int count, char **args) {
    if (count == 2 && !strcmp(args[1], "version")) {
        printf("%s\n", ngtcp2_version(0)->version_str);
        return 0;
    }
    int is_server = count == 6 && !strcmp(args[1], "server");
    if (!is_server && !(count == 7 && !strcmp(args[1], "client"))) {
        fprintf(stderr, "usage: peer server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES | version\n");
        return 2;
    }
    const char *why = lacks(args[2], !is_server);
    if (why) {
        printf("unsupported: %s\n", why);
        return 127;
    }
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)(i % PERIOD);
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    endpoint->name = args[2];
    endpoint->is_server = is_server;
    endpoint->stopped = endpoint->closed = -1;
    random_bytes(endpoint->secret, sizeof endpoint->secret);
    if (gnutls_certificate_allocate_credentials(&endpoint->credentials)) fail("no credentials");
    /* Chains that are longer than they need to be. */
    gnutls_certificate_set_verify_limits(endpoint->credentials, 8200, 32);
    struct sockaddr_storage address;
    socklen_t len;
    if (is_server) {
        if (gnutls_certificate_set_x509_key_file(endpoint->credentials, args[3], args[4], GNUTLS_X509_FMT_PEM) < 0) fail("no certificate");
        gnutls_session_ticket_key_generate(&endpoint->ticket_key);
        gnutls_anti_replay_init(&endpoint->anti_replay);
        gnutls_anti_replay_set_add_function(endpoint->anti_replay, never_seen);
        gnutls_anti_replay_set_window(endpoint->anti_replay, 600000);
        resolve(args[5], "0", &address, &len);
        add_socket(endpoint, address.ss_family, (struct sockaddr *)&address, len);
        struct sockaddr_in *local = (struct sockaddr_in *)&endpoint->locals[0];
        /* The port is at the same place in addresses of both families. */
        printf("listening %d\n", ntohs(local->sin_port));
        fflush(stdout);
        serve(endpoint);
    }
    if (gnutls_certificate_set_x509_trust_file(endpoint->credentials, args[3], GNUTLS_X509_FMT_PEM) < 0) fail("no authority");
    resolve(args[4], args[5], &address, &len);
    struct sockaddr_storage any;
    socklen_t any_len;
    resolve(address.ss_family == AF_INET ? "127.0.0.1" : "::1", "0", &any, &any_len);
    add_socket(endpoint, any.ss_family, (struct sockaddr *)&any, any_len);
    struct kept kept = {0};
    char one[] = "1";
    if (!strcmp(args[2], "resumption") || !strcmp(args[2], "close-client") || asks_early(args[2])) {
        download(endpoint, (struct sockaddr *)&address, len, one, 1, &kept);
        if (is_case(endpoint, "close-client")) kept.there = 0;
        /* Another address for another connection. */
        close(endpoint->sockets[0]);
        endpoint->socket_count = 0;
        add_socket(endpoint, any.ss_family, (struct sockaddr *)&any, any_len);
    }
    download(endpoint, (struct sockaddr *)&address, len, args[6], 0, &kept);
    return 0;
}
