/* A peer of the interop cases by ngtcp2 with GnuTLS, as distributions ship them: see `README.md` in the folder above. */

#include "connection.h"

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
