// A peer of the interop cases by golang.org/x/net/quic: see README.md in the folder above.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/quic"
)

const (
	alpn          = "hq-interop"
	resetCode     = 17
	stopCode      = 18
	closeByClient = 20
)

// Cases that the library, or its API, has nothing for.
var lacks = map[string]string{
	"v2":                  "the library speaks version 1 only",
	"versionnegotiation":  "the library speaks version 1 only",
	"chacha20":            "crypto/tls of Go does not let a program choose the suites of TLS 1.3",
	"keyupdate":           "the API has no key update on demand",
	"zerortt":             "the library has no 0-RTT",
	"zerortt-refused":     "the library has no 0-RTT",
	"ecn":                 "the library does not mark packets",
	"datagrams":           "the library has no datagrams",
	"rebind-port":         "the library has no migration",
	"rebind-addr":         "the library has no migration",
	"connectionmigration": "the library has no migration",
	"preferredaddress":    "the library has no preferred addresses",
	"cid-0":               "the length of connection IDs is fixed",
	"cid-4":               "the length of connection IDs is fixed",
	"cid-20":              "the length of connection IDs is fixed",
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		info, _ := debug.ReadBuildInfo()
		for _, dep := range info.Deps {
			if dep.Path == "golang.org/x/net" {
				fmt.Println(dep.Version)
			}
		}
		return
	}
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: peer server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES | version")
		os.Exit(2)
	}
	role, scenario, rest := os.Args[1], os.Args[2], os.Args[3:]
	if role == "server" && scenario == "resumption" {
		fmt.Println("unsupported: the library's servers send no tickets")
		os.Exit(127)
	}
	// A server of one version has something to say to clients of another one, and follows a client's key update.
	serves := role == "server" && (scenario == "versionnegotiation" || scenario == "keyupdate")
	if why, ok := lacks[scenario]; ok && !serves {
		fmt.Println("unsupported:", why)
		os.Exit(127)
	}
	var err error
	if role == "server" {
		err = server(scenario, rest[0], rest[1], rest[2])
	} else {
		err = client(scenario, rest[0], net.JoinHostPort(rest[1], rest[2]), rest[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config(settings *tls.Config) *quic.Config {
	settings.MinVersion = tls.VersionTLS13
	return &quic.Config{
		TLSConfig:                settings,
		MaxBidiRemoteStreams:     1000,
		MaxStreamReadBufferSize:  4 << 20,
		MaxStreamWriteBufferSize: 4 << 20,
		MaxConnReadBufferSize:    16 << 20,
		HandshakeTimeout:         120 * time.Second,
		MaxIdleTimeout:           30 * time.Second,
	}
}

// body is an endless reader of the bytes that every answer consists of.
type body struct{ at int }

func (b *body) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b.at % 251)
		b.at++
	}
	return len(p), nil
}

// heard is a code that a server was told, on any connection.
type heard struct {
	once  sync.Once
	there chan struct{}
	code  uint64
}

func (h *heard) set(code uint64) {
	h.once.Do(func() { h.code = code; close(h.there) })
}

var (
	stopped = heard{there: make(chan struct{})}
	closed  = heard{there: make(chan struct{})}
)

func server(scenario, certificate, key, host string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	settings := config(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{alpn}})
	settings.RequireAddressValidation = scenario == "retry"
	endpoint, err := quic.Listen("udp", net.JoinHostPort(host, "0"), settings)
	if err != nil {
		return err
	}
	fmt.Println("listening", endpoint.LocalAddr().Port())
	go func() {
		for {
			conn, err := endpoint.Accept(context.Background())
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	// Until the test closes our standard input.
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func serve(conn *quic.Conn) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			var end *quic.ConnectionCloseError
			if errors.As(conn.Wait(context.Background()), &end) {
				closed.set(end.Code)
			}
			return
		}
		go answer(conn, stream)
	}
}

func answer(conn *quic.Conn, stream *quic.Stream) {
	line, err := bufio.NewReader(stream).ReadString('\n')
	if err != nil {
		return
	}
	verb, number, _ := strings.Cut(strings.TrimSpace(line), " /")
	count, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		stream.Reset(1)
		return
	}
	switch verb {
	case "STOPPED":
		<-stopped.there
		fmt.Fprint(stream, stopped.code)
	case "CLOSED":
		<-closed.there
		fmt.Fprint(stream, closed.code)
	case "CLOSE":
		conn.Abort(&quic.ConnectionCloseError{Code: uint64(count), Reason: "bye"})
		return
	case "RESET":
		io.CopyN(stream, &body{}, count)
		stream.Flush()
		stream.Reset(resetCode)
		return
	default:
		_, err := io.CopyN(stream, &body{}, count)
		var code quic.StreamError
		if errors.As(err, &code) {
			stopped.set(uint64(code))
		}
	}
	stream.CloseWrite()
}

func client(scenario, authority, address, sizes string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	settings := config(&tls.Config{
		RootCAs:            roots,
		ServerName:         "localhost",
		NextProtos:         []string{alpn},
		ClientSessionCache: tls.NewLRUClientSessionCache(4),
	})
	if scenario == "resumption" || scenario == "close-client" {
		if err := download("", settings, address, "1", false); err != nil {
			return err
		}
	}
	if scenario == "close-client" {
		settings.TLSConfig.ClientSessionCache = nil
	}
	return download(scenario, settings, address, sizes, true)
}

func download(scenario string, settings *quic.Config, address, sizes string, tell bool) error {
	ctx := context.Background()
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	endpoint, err := quic.Listen("udp", net.JoinHostPort(remote.Addr().String(), "0"), nil)
	if err != nil {
		return err
	}
	conn, err := endpoint.Dial(ctx, "udp", address, settings)
	if err != nil {
		return err
	}
	type answer struct {
		line string
		err  error
	}
	wanted := strings.Split(sizes, ",")
	answers := make([]chan answer, len(wanted))
	for i, size := range wanted {
		answers[i] = make(chan answer, 1)
		stream, err := conn.NewStream(ctx)
		if err != nil {
			return err
		}
		go func() {
			line, err := get(stream, size)
			answers[i] <- answer{line, err}
		}()
	}
	for _, done := range answers {
		answer := <-done
		if answer.err != nil {
			return answer.err
		}
		if tell {
			fmt.Println(answer.line)
		}
	}
	if tell {
		if err := act(ctx, scenario, conn); err != nil {
			return err
		}
		if conn.ConnectionState().DidResume {
			fmt.Println("resumed")
		}
		fmt.Println("version 0x1")
	}
	conn.Abort(&quic.ConnectionCloseError{Code: closeByClient, Reason: "bye"})
	return endpoint.Close(ctx)
}

// act does what a case is about, and prints what came of it.
func act(ctx context.Context, scenario string, conn *quic.Conn) error {
	switch scenario {
	case "reset":
		stream, err := ask(ctx, conn, "RESET", 100_000)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, stream)
		var code quic.StreamError
		if !errors.As(err, &code) {
			return fmt.Errorf("not reset: %w", err)
		}
		fmt.Println("reset", uint64(code))
	case "stop":
		stream, err := ask(ctx, conn, "GET", 20<<20)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(stream, make([]byte, 1000)); err != nil {
			return err
		}
		stream.StopSending(stopCode)
		return told(ctx, conn, "STOPPED", "stopped")
	case "close-server":
		if _, err := ask(ctx, conn, "CLOSE", 19); err != nil {
			return err
		}
		err := conn.Wait(ctx)
		var end *quic.ConnectionCloseError
		if !errors.As(err, &end) {
			return fmt.Errorf("not closed: %w", err)
		}
		fmt.Println("closed", end.Code)
	case "close-client":
		return told(ctx, conn, "CLOSED", "closed")
	}
	return nil
}

func ask(ctx context.Context, conn *quic.Conn, verb string, number int) (*quic.Stream, error) {
	stream, err := conn.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stream, "%s /%d\r\n", verb, number)
	stream.CloseWrite()
	return stream, nil
}

func told(ctx context.Context, conn *quic.Conn, verb, fact string) error {
	stream, err := ask(ctx, conn, verb, 0)
	if err != nil {
		return err
	}
	code, err := io.ReadAll(stream)
	fmt.Println(fact, string(code))
	return err
}

func get(stream *quic.Stream, size string) (string, error) {
	if _, err := fmt.Fprintf(stream, "GET /%s\r\n", size); err != nil {
		return "", err
	}
	stream.CloseWrite()
	digest := sha256.New()
	count, err := io.Copy(digest, stream)
	if err != nil {
		return "", err
	}
	if strconv.FormatInt(count, 10) != size {
		return "", fmt.Errorf("%d bytes instead of %s", count, size)
	}
	return fmt.Sprintf("got %s %s", size, hex.EncodeToString(digest.Sum(nil))), nil
}
