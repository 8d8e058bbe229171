/* A peer of the interop cases by msquic: see `README.md` in the folder above. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <msquic.h>

/* Byte i of every answer is i modulo this. */
#define PERIOD 251
#define LARGEST (20 << 20)
/* Application error codes. */
#define RESET 17
#define STOP 18
#define CLOSE_BY_CLIENT 20
#define DATAGRAMS 20
#define DATAGRAM_LEN 1000
#define RESET_LEN 100000
#define MAX_STREAMS 600

enum waits { NOTHING, FOR_STOPPED, FOR_CLOSED };

struct stream {
    HQUIC handle;
    struct connection *connection;
    char text[64];
    size_t text_len;
    QUIC_BUFFER buffer;
    enum waits waits;
    int resets;
    /* What a client received. */
    gnutls_hash_hd_t digest;
    uint64_t got;
    char first[32];
    int done;
    int64_t reset;
};

struct connection {
    HQUIC handle;
    int is_first, connected, resumed, over, has_ticket, may_send;
    int64_t closed;
    struct stream *streams[MAX_STREAMS];
    size_t count;
    uint8_t back[DATAGRAMS];
};

static const QUIC_API_TABLE *quic;
static HQUIC registration, configuration;
static const char *name;
static int is_server;
static uint8_t *body;
/* Some calls in a callback call back. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* What a server heard, and who waits for it. */
static int64_t stopped = -1, closed_with = -1;
static struct stream *waiting[64];
static size_t waiting_count;
static uint8_t ticket[8192];
static uint32_t ticket_len;

static int is_case(const char *other) {
    return !strcmp(name, other);
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static void check(QUIC_STATUS status, const char *what) {
    if (QUIC_FAILED(status)) {
        fprintf(stderr, "%s: 0x%x\n", what, status);
        _exit(1);
    }
}

static uint64_t patience(void) {
    return is_case("handshakeloss") || is_case("handshakecorruption") || is_case("amplificationlimit") ? 120000 : 30000;
}

/* The buffer lives as long as its stream. */
static void send_bytes(struct stream *stream, const void *bytes, size_t len, QUIC_SEND_FLAGS flags) {
    stream->buffer.Buffer = (uint8_t *)bytes;
    stream->buffer.Length = (uint32_t)len;
    quic->StreamSend(stream->handle, &stream->buffer, 1, flags, NULL);
}

static void send_number(struct stream *stream, int64_t number) {
    stream->text_len = (size_t)snprintf(stream->text, sizeof stream->text, "%lld", (long long)number);
    send_bytes(stream, stream->text, stream->text_len, QUIC_SEND_FLAG_FIN);
}

/* Tells those who wait. Under the lock. */
static void tell(void) {
    size_t left = 0;
    for (size_t i = 0; i < waiting_count; i++) {
        int64_t code = waiting[i]->waits == FOR_STOPPED ? stopped : closed_with;
        if (code >= 0) send_number(waiting[i], code);
        else waiting[left++] = waiting[i];
    }
    waiting_count = left;
}

static void answer(struct stream *stream) {
    char verb[16];
    unsigned long long number = 0;
    stream->text[stream->text_len] = 0;
    if (sscanf(stream->text, "%15s /%llu", verb, &number) != 2 || number > LARGEST) {
        quic->StreamShutdown(stream->handle, QUIC_STREAM_SHUTDOWN_FLAG_ABORT, 1);
    } else if (!strcmp(verb, "CLOSE")) {
        quic->ConnectionShutdown(stream->connection->handle, QUIC_CONNECTION_SHUTDOWN_FLAG_NONE, number);
    } else if (!strcmp(verb, "STOPPED") || !strcmp(verb, "CLOSED")) {
        stream->waits = strcmp(verb, "STOPPED") ? FOR_CLOSED : FOR_STOPPED;
        if (waiting_count < 64) waiting[waiting_count++] = stream;
        tell();
    } else {
        stream->resets = !strcmp(verb, "RESET");
        send_bytes(stream, body, number, stream->resets ? QUIC_SEND_FLAG_NONE : QUIC_SEND_FLAG_FIN);
    }
}

static void take(struct stream *stream, const uint8_t *data, size_t len) {
    if (is_server) {
        if (stream->text_len + len >= sizeof stream->text) return;
        memcpy(stream->text + stream->text_len, data, len);
        stream->text_len += len;
        return;
    }
    gnutls_hash(stream->digest, data, len);
    for (size_t i = 0; i < len && stream->got + i + 1 < sizeof stream->first; i++) stream->first[stream->got + i] = (char)data[i];
    stream->got += len;
}

static QUIC_STATUS on_stream(HQUIC handle, void *context, QUIC_STREAM_EVENT *event) {
    struct stream *stream = context;
    pthread_mutex_lock(&lock);
    switch (event->Type) {
    case QUIC_STREAM_EVENT_RECEIVE:
        for (uint32_t i = 0; i < event->RECEIVE.BufferCount; i++) take(stream, event->RECEIVE.Buffers[i].Buffer, event->RECEIVE.Buffers[i].Length);
        break;
    case QUIC_STREAM_EVENT_PEER_SEND_SHUTDOWN:
        if (is_server) answer(stream);
        else stream->done = 1;
        break;
    case QUIC_STREAM_EVENT_PEER_SEND_ABORTED:
        stream->reset = (int64_t)event->PEER_SEND_ABORTED.ErrorCode;
        stream->done = 1;
        break;
    case QUIC_STREAM_EVENT_PEER_RECEIVE_ABORTED:
        stopped = (int64_t)event->PEER_RECEIVE_ABORTED.ErrorCode;
        quic->StreamShutdown(handle, QUIC_STREAM_SHUTDOWN_FLAG_ABORT_SEND, event->PEER_RECEIVE_ABORTED.ErrorCode);
        tell();
        break;
    case QUIC_STREAM_EVENT_SEND_COMPLETE:
        if (stream->resets) quic->StreamShutdown(handle, QUIC_STREAM_SHUTDOWN_FLAG_ABORT_SEND, RESET);
        break;
    case QUIC_STREAM_EVENT_SHUTDOWN_COMPLETE:
        if (is_server) {
            for (size_t i = 0; i < waiting_count; i++)
                if (waiting[i] == stream) waiting[i] = waiting[--waiting_count];
            free(stream);
        }
        quic->StreamClose(handle);
        break;
    default:
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return QUIC_STATUS_SUCCESS;
}

struct datagram {
    QUIC_BUFFER buffer;
    uint8_t bytes[DATAGRAM_LEN];
};

static void send_datagram(HQUIC connection, const uint8_t *bytes) {
    struct datagram *datagram = malloc(sizeof *datagram);
    memcpy(datagram->bytes, bytes, DATAGRAM_LEN);
    datagram->buffer = (QUIC_BUFFER){DATAGRAM_LEN, datagram->bytes};
    if (QUIC_FAILED(quic->DatagramSend(connection, &datagram->buffer, 1, QUIC_SEND_FLAG_NONE, datagram))) free(datagram);
}

static QUIC_STATUS on_connection(HQUIC handle, void *context, QUIC_CONNECTION_EVENT *event) {
    struct connection *connection = context;
    pthread_mutex_lock(&lock);
    switch (event->Type) {
    case QUIC_CONNECTION_EVENT_CONNECTED:
        connection->connected = 1;
        connection->resumed = event->CONNECTED.SessionResumed;
        if (is_server) quic->ConnectionSendResumptionTicket(handle, QUIC_SEND_RESUMPTION_FLAG_FINAL, 0, NULL);
        break;
    case QUIC_CONNECTION_EVENT_SHUTDOWN_INITIATED_BY_TRANSPORT:
        fprintf(stderr, "ended by the transport: status 0x%x, code 0x%llx\n", event->SHUTDOWN_INITIATED_BY_TRANSPORT.Status,
                (unsigned long long)event->SHUTDOWN_INITIATED_BY_TRANSPORT.ErrorCode);
        break;
    case QUIC_CONNECTION_EVENT_SHUTDOWN_INITIATED_BY_PEER:
        connection->closed = (int64_t)event->SHUTDOWN_INITIATED_BY_PEER.ErrorCode;
        if (is_server) closed_with = connection->closed;
        tell();
        break;
    case QUIC_CONNECTION_EVENT_SHUTDOWN_COMPLETE:
        connection->over = 1;
        if (is_server) {
            quic->ConnectionClose(handle);
            free(connection);
        }
        break;
    case QUIC_CONNECTION_EVENT_PEER_STREAM_STARTED: {
        struct stream *stream = calloc(1, sizeof *stream);
        stream->handle = event->PEER_STREAM_STARTED.Stream;
        stream->connection = connection;
        quic->SetCallbackHandler(stream->handle, (void *)on_stream, stream);
        break;
    }
    case QUIC_CONNECTION_EVENT_RESUMPTION_TICKET_RECEIVED:
        if (event->RESUMPTION_TICKET_RECEIVED.ResumptionTicketLength <= sizeof ticket) {
            ticket_len = event->RESUMPTION_TICKET_RECEIVED.ResumptionTicketLength;
            memcpy(ticket, event->RESUMPTION_TICKET_RECEIVED.ResumptionTicket, ticket_len);
            connection->has_ticket = 1;
        }
        break;
    case QUIC_CONNECTION_EVENT_DATAGRAM_STATE_CHANGED:
        connection->may_send = event->DATAGRAM_STATE_CHANGED.SendEnabled && event->DATAGRAM_STATE_CHANGED.MaxSendLength >= DATAGRAM_LEN;
        break;
    case QUIC_CONNECTION_EVENT_DATAGRAM_RECEIVED: {
        const QUIC_BUFFER *buffer = event->DATAGRAM_RECEIVED.Buffer;
        if (buffer->Length != DATAGRAM_LEN) fail("a datagram of another length");
        if (is_server) send_datagram(handle, buffer->Buffer);
        else if (buffer->Buffer[0] < DATAGRAMS) connection->back[buffer->Buffer[0]] = 1;
        break;
    }
    case QUIC_CONNECTION_EVENT_DATAGRAM_SEND_STATE_CHANGED:
        if (QUIC_DATAGRAM_SEND_STATE_IS_FINAL(event->DATAGRAM_SEND_STATE_CHANGED.State)) free(event->DATAGRAM_SEND_STATE_CHANGED.ClientContext);
        break;
    default:
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return QUIC_STATUS_SUCCESS;
}

static QUIC_STATUS on_listener(HQUIC listener, void *context, QUIC_LISTENER_EVENT *event) {
    (void)listener, (void)context;
    if (event->Type != QUIC_LISTENER_EVENT_NEW_CONNECTION) return QUIC_STATUS_SUCCESS;
    struct connection *connection = calloc(1, sizeof *connection);
    connection->handle = event->NEW_CONNECTION.Connection;
    connection->closed = -1;
    quic->SetCallbackHandler(connection->handle, (void *)on_connection, connection);
    return quic->ConnectionSetConfiguration(connection->handle, configuration);
}

static void configure(char **args) {
    static const QUIC_BUFFER alpn = {10, (uint8_t *)"hq-interop"};
    QUIC_SETTINGS settings = {0};
#define SET(what, value) settings.what = (value), settings.IsSet.what = 1
    SET(IdleTimeoutMs, patience());
    SET(HandshakeIdleTimeoutMs, patience());
    SET(DisconnectTimeoutMs, (uint32_t)patience());
    SET(PeerBidiStreamCount, MAX_STREAMS);
    SET(SendBufferingEnabled, 0);
    SET(DatagramReceiveEnabled, 1);
    SET(ServerResumptionLevel, QUIC_SERVER_RESUME_AND_ZERORTT);
    SET(EcnEnabled, 1);
    check(quic->ConfigurationOpen(registration, &alpn, 1, &settings, sizeof settings, NULL, &configuration), "no configuration");
    QUIC_CREDENTIAL_CONFIG credential = {0};
    QUIC_CERTIFICATE_FILE file = {0};
    if (is_server) {
        file.CertificateFile = args[3];
        file.PrivateKeyFile = args[4];
        credential.Type = QUIC_CREDENTIAL_TYPE_CERTIFICATE_FILE;
        credential.CertificateFile = &file;
    } else {
        credential.Type = QUIC_CREDENTIAL_TYPE_NONE;
        credential.Flags = QUIC_CREDENTIAL_FLAG_CLIENT | QUIC_CREDENTIAL_FLAG_SET_CA_CERTIFICATE_FILE
            | QUIC_CREDENTIAL_FLAG_USE_TLS_BUILTIN_CERTIFICATE_VALIDATION;
        credential.CaCertificateFile = args[3];
    }
    if (is_case("chacha20")) {
        credential.Flags |= QUIC_CREDENTIAL_FLAG_SET_ALLOWED_CIPHER_SUITES;
        credential.AllowedCipherSuites = QUIC_ALLOWED_CIPHER_SUITE_CHACHA20_POLY1305_SHA256;
    }
    check(quic->ConfigurationLoadCredential(configuration, &credential), "no credentials");
}

static QUIC_ADDR address(const char *host, uint16_t port) {
    QUIC_ADDR to = {0};
    if (strchr(host, ':')) {
        to.Ipv6.sin6_family = AF_INET6;
        to.Ipv6.sin6_port = htons(port);
        inet_pton(AF_INET6, host, &to.Ipv6.sin6_addr);
    } else {
        to.Ipv4.sin_family = AF_INET;
        to.Ipv4.sin_port = htons(port);
        inet_pton(AF_INET, host, &to.Ipv4.sin_addr);
    }
    return to;
}

static void serve(const char *host) {
    static const QUIC_BUFFER alpn = {10, (uint8_t *)"hq-interop"};
    HQUIC listener;
    QUIC_ADDR local = address(host, 0);
    if (is_case("retry")) {
        uint16_t always = 0;
        check(quic->SetParam(NULL, QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT, sizeof always, &always), "no Retry");
    }
    check(quic->ListenerOpen(registration, on_listener, NULL, &listener), "no listener");
    check(quic->ListenerStart(listener, &alpn, 1, &local), "the listener does not start");
    uint32_t len = sizeof local;
    check(quic->GetParam(listener, QUIC_PARAM_LISTENER_LOCAL_ADDRESS, &len, &local), "no address");
    /* The port is at the same place in addresses of both families. */
    printf("listening %d\n", ntohs(local.Ipv4.sin_port));
    fflush(stdout);
    char none[16];
    while (read(0, none, sizeof none) > 0) {}
    _exit(0);
}

/* The client. The lock is held by all of it. */

static struct stream *ask(struct connection *connection, const char *verb, uint64_t number) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->connection = connection;
    stream->reset = -1;
    stream->text_len = (size_t)snprintf(stream->text, sizeof stream->text, "%s /%llu\r\n", verb, (unsigned long long)number);
    gnutls_hash_init(&stream->digest, GNUTLS_DIG_SHA256);
    connection->streams[connection->count++] = stream;
    pthread_mutex_unlock(&lock);
    check(quic->StreamOpen(connection->handle, QUIC_STREAM_OPEN_FLAG_NONE, on_stream, stream, &stream->handle), "no stream");
    send_bytes(stream, stream->text, stream->text_len, QUIC_SEND_FLAG_START | QUIC_SEND_FLAG_FIN | QUIC_SEND_FLAG_ALLOW_0_RTT);
    pthread_mutex_lock(&lock);
    return stream;
}

static void wait_change(const struct connection *connection, int ms) {
    if (connection->over && !is_case("close-server")) fail("the connection ended early");
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&changed, &lock, &until);
}

static void wait_done(const struct connection *connection, const struct stream *stream) {
    while (!stream->done) wait_change(connection, 100);
}

static void migrate(struct connection *connection) {
    QUIC_ADDR local;
    uint32_t len = sizeof local;
    pthread_mutex_unlock(&lock);
    check(quic->GetParam(connection->handle, QUIC_PARAM_CONN_LOCAL_ADDRESS, &len, &local), "no address");
    local.Ipv4.sin_port = 0;
    check(quic->SetParam(connection->handle, QUIC_PARAM_CONN_LOCAL_ADDRESS, sizeof local, &local), "it does not migrate");
    pthread_mutex_lock(&lock);
}

static void act(struct connection *connection, char *fact, size_t size) {
    if (is_case("reset")) {
        struct stream *stream = ask(connection, "RESET", RESET_LEN);
        wait_done(connection, stream);
        snprintf(fact, size, "reset %lld", (long long)stream->reset);
    } else if (is_case("stop")) {
        struct stream *stream = ask(connection, "GET", LARGEST);
        while (!stream->got) wait_change(connection, 100);
        pthread_mutex_unlock(&lock);
        quic->StreamShutdown(stream->handle, QUIC_STREAM_SHUTDOWN_FLAG_ABORT_RECEIVE, STOP);
        pthread_mutex_lock(&lock);
        struct stream *told = ask(connection, "STOPPED", 0);
        wait_done(connection, told);
        snprintf(fact, size, "stopped %s", told->first);
    } else if (is_case("close-server")) {
        ask(connection, "CLOSE", 19);
        while (connection->closed < 0) wait_change(connection, 100);
        snprintf(fact, size, "closed %lld", (long long)connection->closed);
    } else if (is_case("close-client")) {
        struct stream *told = ask(connection, "CLOSED", 0);
        wait_done(connection, told);
        snprintf(fact, size, "closed %s", told->first);
    } else if (is_case("datagrams")) {
        for (size_t back = 0; back < DATAGRAMS;) {
            if (connection->may_send)
                for (int i = 0; i < DATAGRAMS; i++) {
                    uint8_t bytes[DATAGRAM_LEN];
                    memset(bytes, i, sizeof bytes);
                    pthread_mutex_unlock(&lock);
                    if (!connection->back[i]) send_datagram(connection->handle, bytes);
                    pthread_mutex_lock(&lock);
                }
            for (int turn = 0; turn < 30 && back < DATAGRAMS; turn++) {
                wait_change(connection, 10);
                back = 0;
                for (int i = 0; i < DATAGRAMS; i++) back += connection->back[i];
            }
        }
        snprintf(fact, size, "datagrams %d", DATAGRAMS);
    }
}

static void print_got(struct stream *stream) {
    uint8_t digest[32];
    gnutls_hash_output(stream->digest, digest);
    printf("got %llu ", (unsigned long long)stream->got);
    for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
    printf("\n");
}

/* One connection, to its end. `first`: it is only made for what the second one goes on with. */
static void download(const QUIC_ADDR *remote, const char *sizes, int first) {
    struct connection *connection = calloc(1, sizeof *connection);
    connection->closed = -1;
    check(quic->ConnectionOpen(registration, on_connection, connection, &connection->handle), "no connection");
    check(quic->SetParam(connection->handle, QUIC_PARAM_CONN_REMOTE_ADDRESS, sizeof *remote, remote), "no remote address");
    if (!first && ticket_len && is_case("resumption"))
        check(quic->SetParam(connection->handle, QUIC_PARAM_CONN_RESUMPTION_TICKET, ticket_len, ticket), "the ticket is of no use");
    pthread_mutex_lock(&lock);
    for (const char *size = sizes; size; size = strchr(size, ',') ? strchr(size, ',') + 1 : NULL) ask(connection, "GET", strtoull(size, NULL, 10));
    size_t files = connection->count;
    pthread_mutex_unlock(&lock);
    uint16_t port = ntohs(remote->Ipv4.sin_port);
    check(quic->ConnectionStart(connection->handle, configuration, remote->Ip.sa_family, "localhost", port), "it does not begin");
    pthread_mutex_lock(&lock);
    if (is_case("connectionmigration")) {
        while (connection->streams[0]->got < strtoull(sizes, NULL, 10) / 4) wait_change(connection, 100);
        migrate(connection);
    }
    for (size_t i = 0; i < files; i++) wait_done(connection, connection->streams[i]);
    while (first && is_case("resumption") && !connection->has_ticket) wait_change(connection, 100);
    char fact[100] = "";
    if (!first) {
        act(connection, fact, sizeof fact);
        for (size_t i = 0; i < files; i++) print_got(connection->streams[i]);
        if (*fact) printf("%s\n", fact);
        if (connection->resumed) printf("resumed\n");
    }
    pthread_mutex_unlock(&lock);
    uint32_t version = 0, len = sizeof version;
    quic->GetParam(connection->handle, QUIC_PARAM_CONN_QUIC_VERSION, &len, &version);
    if (!first) printf("version 0x%x\n", version);
    fflush(stdout);
    quic->ConnectionShutdown(connection->handle, QUIC_CONNECTION_SHUTDOWN_FLAG_NONE, first && is_case("close-client") ? CLOSE_BY_CLIENT : 0);
    pthread_mutex_lock(&lock);
    for (int turn = 0; turn < 20 && !connection->over; turn++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&changed, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
}

static const char *lacks(int is_client) {
    if (!strncmp(name, "cid-", 4)) return "the library has no setting for it";
    if (is_case("preferredaddress")) return "the program has no setting for it";
    if (is_client && is_case("keyupdate")) return "the library updates keys by itself only";
    if (is_client && (is_case("zerortt") || is_case("zerortt-refused"))) return "the library does not tell whether early data was taken";
    if (is_client && is_case("connectionmigration"))
        return "its clients go on with the connection ID that they had at another address (RFC 9000 section 9.5)";
    if (!is_client && is_case("versionnegotiation")) return "the library speaks version 2, which the case begins with, as well";
    if (is_client && (is_case("v2") || is_case("versionnegotiation"))) return "the program has no setting for it";
    return NULL;
}

int main(int count, char **args) {
    check(MsQuicOpen2(&quic), "no library");
    if (count == 2 && !strcmp(args[1], "version")) {
        uint32_t version[4], len = sizeof version;
        check(quic->GetParam(NULL, QUIC_PARAM_GLOBAL_LIBRARY_VERSION, &len, version), "no version");
        printf("%u.%u.%u\n", version[0], version[1], version[2]);
        return 0;
    }
    is_server = count == 6 && !strcmp(args[1], "server");
    if (!is_server && !(count == 7 && !strcmp(args[1], "client"))) {
        fprintf(stderr, "usage: peer server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES | version\n");
        return 2;
    }
    name = args[2];
    const char *why = lacks(!is_server);
    if (why) {
        printf("unsupported: %s\n", why);
        return 127;
    }
    body = malloc(LARGEST);
    for (size_t i = 0; i < LARGEST; i++) body[i] = (uint8_t)(i % PERIOD);
    QUIC_REGISTRATION_CONFIG app = {"peer", QUIC_EXECUTION_PROFILE_LOW_LATENCY};
    check(quic->RegistrationOpen(&app, &registration), "no registration");
    configure(args);
    if (is_server) serve(args[5]);
    QUIC_ADDR remote = address(args[4], (uint16_t)atoi(args[5]));
    if (is_case("resumption") || is_case("close-client")) download(&remote, "1", 1);
    download(&remote, args[6], 0);
    _exit(0);
}
