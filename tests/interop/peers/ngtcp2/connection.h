/* What both roles of the peer have: sockets, connection IDs, streams, what the library calls, TLS. Included by `main.c` alone. */

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
    int is_server;
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
    int hard = !strcmp(name, "handshakeloss") || !strcmp(name, "handshakecorruption") || !strcmp(name, "amplificationlimit");
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
