// A peer of the interop cases by quic-go: see README.md in the folder above.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	alpn          = "hq-interop"
	resetCode     = 17
	stopCode      = 18
	closeByClient = 20
	datagrams     = 20
	datagramSize  = 1000
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		info, _ := debug.ReadBuildInfo()
		for _, dep := range info.Deps {
			if dep.Path == "github.com/quic-go/quic-go" {
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
	switch {
	case scenario == "preferredaddress" && role == "server":
		unsupported("quic-go's servers have no setting for a preferred address")
	case scenario == "preferredaddress":
		unsupported("quic-go's clients stay at the address of the handshake")
	case scenario == "cid-0" && role == "server":
		unsupported("quic-go's servers need connection IDs")
	case scenario == "chacha20":
		unsupported("crypto/tls of Go does not let a program choose the suites of TLS 1.3")
	case scenario == "keyupdate" && role == "client":
		unsupported("quic-go updates keys by itself only")
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

func unsupported(why string) {
	fmt.Println("unsupported:", why)
	os.Exit(127)
}

func config(scenario string, isClient bool) *quic.Config {
	versions := []quic.Version{quic.Version1}
	if scenario == "v2" {
		versions = []quic.Version{quic.Version2}
	}
	if scenario == "versionnegotiation" && isClient {
		versions = []quic.Version{quic.Version2, quic.Version1}
	}
	settings := &quic.Config{
		Versions:        versions,
		EnableDatagrams: true,
		// The case of lost handshakes has its own patience.
		HandshakeIdleTimeout: 60 * time.Second,
		MaxIdleTimeout:       30 * time.Second,
		MaxIncomingStreams:   1000,
		Allow0RTT:            true,
	}
	if scenario == "mtu1280" {
		// Without the headers of IP and UDP.
		settings.InitialPacketSize = 1200
	}
	return settings
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

func server(scenario, certificate, key, host string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
	if err != nil {
		return err
	}
	transport := quic.Transport{Conn: socket, ConnectionIDGenerator: idsFor(scenario)}
	if scenario == "retry" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	listener, err := transport.ListenEarly(&tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{alpn},
	}, config(scenario, false))
	if err != nil {
		return err
	}
	fmt.Println("listening", socket.LocalAddr().(*net.UDPAddr).Port)
	go func() {
		for {
			conn, err := listener.Accept(context.Background())
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

func serve(conn *quic.Conn) {
	go func() {
		for {
			datagram, err := conn.ReceiveDatagram(context.Background())
			if err != nil {
				return
			}
			conn.SendDatagram(datagram)
		}
	}()
	for {
		stream, err := conn.AcceptStream(context.Background())
		var end *quic.ApplicationError
		if errors.As(err, &end) {
			closed.set(uint64(end.ErrorCode))
		}
		if err != nil {
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
		stream.CancelWrite(1)
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
		conn.CloseWithError(quic.ApplicationErrorCode(count), "bye")
		return
	case "RESET":
		io.CopyN(stream, &body{}, count)
		stream.CancelWrite(resetCode)
		return
	default:
		_, err := io.CopyN(stream, &body{}, count)
		var end *quic.StreamError
		if errors.As(err, &end) {
			stopped.set(uint64(end.ErrorCode))
		}
	}
	stream.Close()
}

func client(scenario, authority, address, sizes string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	settings := &tls.Config{
		RootCAs:            roots,
		ServerName:         "localhost",
		NextProtos:         []string{alpn},
		ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}
	switch scenario {
	case "resumption", "zerortt", "zerortt-refused", "close-client":
		// The first connection brings the ticket, or is closed with a code.
		if err := download("", settings, address, "1", false); err != nil {
			return err
		}
	}
	if scenario == "close-client" {
		settings.ClientSessionCache = nil
	}
	return download(scenario, settings, address, sizes, true)
}

// transport is a socket of its own towards the server.
func transport(scenario string, remote *net.UDPAddr) (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: remote.IP})
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: socket, ConnectionIDGenerator: idsFor(scenario)}, nil
}

// ids makes random connection IDs of one length.
type ids int

func idsFor(scenario string) quic.ConnectionIDGenerator {
	lengths := map[string]int{"cid-0": 0, "cid-4": 4, "cid-20": 20}
	if length, ok := lengths[scenario]; ok {
		return ids(length)
	}
	return nil
}

func (i ids) ConnectionIDLen() int { return int(i) }

func (i ids) GenerateConnectionID() (quic.ConnectionID, error) {
	id := make([]byte, i)
	_, err := rand.Read(id)
	return quic.ConnectionIDFromBytes(id), err
}

func download(scenario string, settings *tls.Config, address, sizes string, tell bool) error {
	ctx := context.Background()
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	first, err := transport(scenario, remote)
	if err != nil {
		return err
	}
	dial := first.Dial
	if scenario == "zerortt" || scenario == "zerortt-refused" {
		dial = first.DialEarly
	}
	conn, err := dial(ctx, remote, settings, config(scenario, true))
	if err != nil {
		return err
	}
	if scenario == "zerortt-refused" {
		if conn, err = refused(ctx, conn); err != nil {
			return err
		}
	}
	mid := func() error { return nil }
	if scenario == "connectionmigration" {
		mid = func() error { return move(ctx, conn, remote) }
	}
	type answer struct {
		line string
		err  error
	}
	wanted := strings.Split(sizes, ",")
	answers := make([]chan answer, len(wanted))
	for i, size := range wanted {
		answers[i] = make(chan answer, 1)
		stream, err := conn.OpenStreamSync(ctx)
		if err != nil {
			return err
		}
		go func() {
			line, err := get(stream, size, mid)
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
		state := conn.ConnectionState()
		if state.TLS.DidResume {
			fmt.Println("resumed")
		}
		if state.Used0RTT {
			fmt.Println("early")
		}
		fmt.Printf("version %#x\n", uint32(state.Version))
	}
	return conn.CloseWithError(closeByClient, "bye")
}

// refused asks early, which the server does not take, and goes on with the connection that follows.
func refused(ctx context.Context, conn *quic.Conn) (*quic.Conn, error) {
	stream, err := ask(ctx, conn, "GET", 1024)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadAll(stream); !errors.Is(err, quic.Err0RTTRejected) {
		return nil, fmt.Errorf("early data was not refused: %v", err)
	}
	return conn.NextConnection(ctx)
}

// act does what a case is about, and prints what came of it.
func act(ctx context.Context, scenario string, conn *quic.Conn) error {
	switch scenario {
	case "datagrams":
		return echoed(ctx, conn)
	case "reset":
		stream, err := ask(ctx, conn, "RESET", 100_000)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, stream)
		var end *quic.StreamError
		if !errors.As(err, &end) {
			return fmt.Errorf("not reset: %w", err)
		}
		fmt.Println("reset", uint64(end.ErrorCode))
	case "stop":
		stream, err := ask(ctx, conn, "GET", 20<<20)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(stream, make([]byte, 1000)); err != nil {
			return err
		}
		stream.CancelRead(stopCode)
		return told(ctx, conn, "STOPPED", "stopped")
	case "close-server":
		if _, err := ask(ctx, conn, "CLOSE", 19); err != nil {
			return err
		}
		<-conn.Context().Done()
		var end *quic.ApplicationError
		if err := context.Cause(conn.Context()); !errors.As(err, &end) {
			return fmt.Errorf("not closed: %w", err)
		}
		fmt.Println("closed", uint64(end.ErrorCode))
	case "close-client":
		return told(ctx, conn, "CLOSED", "closed")
	}
	return nil
}

// echoed sends datagrams until all are back: those that got lost, again.
func echoed(ctx context.Context, conn *quic.Conn) error {
	back := map[byte]bool{}
	for len(back) < datagrams {
		for number := range byte(datagrams) {
			if !back[number] {
				if err := conn.SendDatagram(bytes.Repeat([]byte{number}, datagramSize)); err != nil {
					return err
				}
			}
		}
		wait, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		for len(back) < datagrams {
			datagram, err := conn.ReceiveDatagram(wait)
			if err != nil {
				break
			}
			if len(datagram) != datagramSize {
				cancel()
				return fmt.Errorf("a datagram of %d bytes", len(datagram))
			}
			back[datagram[0]] = true
		}
		cancel()
	}
	fmt.Println("datagrams", len(back))
	return nil
}

func ask(ctx context.Context, conn *quic.Conn, verb string, number int) (*quic.Stream, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stream, "%s /%d\r\n", verb, number)
	return stream, stream.Close()
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

// move has a connection go on from another port.
func move(ctx context.Context, conn *quic.Conn, remote *net.UDPAddr) error {
	second, err := transport("", remote)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(second)
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	return path.Switch()
}

// get downloads, and calls mid when a quarter is there.
func get(stream *quic.Stream, size string, mid func() error) (string, error) {
	if _, err := fmt.Fprintf(stream, "GET /%s\r\n", size); err != nil {
		return "", err
	}
	if err := stream.Close(); err != nil {
		return "", err
	}
	wanted, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	if _, err := io.CopyN(digest, stream, wanted/4); err != nil {
		return "", err
	}
	if err := mid(); err != nil {
		return "", err
	}
	rest, err := io.Copy(digest, stream)
	if err != nil {
		return "", err
	}
	if count := wanted/4 + rest; count != wanted {
		return "", fmt.Errorf("%d bytes instead of %s", count, size)
	}
	return fmt.Sprintf("got %s %s", size, hex.EncodeToString(digest.Sum(nil))), nil
}
