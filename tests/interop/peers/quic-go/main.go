// A peer of the interop cases by quic-go: see README.md in the folder above.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
)

const alpn = "hq-interop"

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: peer server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES")
		os.Exit(2)
	}
	role, scenario, rest := os.Args[1], os.Args[2], os.Args[3:]
	switch {
	case scenario == "preferredaddress" && role == "server":
		unsupported("quic-go's servers have no setting for a preferred address")
	case scenario == "preferredaddress":
		unsupported("quic-go's clients stay at the address of the handshake")
	case scenario == "chacha20":
		unsupported("crypto/tls of Go does not let a program choose the suites of TLS 1.3")
	case scenario == "keyupdate":
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

func config(scenario string) *quic.Config {
	version := quic.Version1
	if scenario == "v2" {
		version = quic.Version2
	}
	return &quic.Config{
		Versions:           []quic.Version{version},
		MaxIdleTimeout:     30 * time.Second,
		MaxIncomingStreams: 1000,
		Allow0RTT:          true,
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

func server(scenario, certificate, key, host string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
	if err != nil {
		return err
	}
	transport := quic.Transport{Conn: socket}
	if scenario == "retry" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	listener, err := transport.ListenEarly(&tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{alpn},
	}, config(scenario))
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

func serve(conn *quic.Conn) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			line, err := bufio.NewReader(stream).ReadString('\n')
			if err != nil {
				return
			}
			size, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(line), "GET /"), 10, 64)
			if err != nil {
				stream.CancelWrite(1)
				return
			}
			io.CopyN(stream, &body{}, size)
			stream.Close()
		}()
	}
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
	if scenario == "resumption" || scenario == "zerortt" {
		// The first connection brings the ticket.
		if err := download("resumption", settings, address, "1", false); err != nil {
			return err
		}
	}
	return download(scenario, settings, address, sizes, true)
}

// transport is a socket of its own towards the server.
func transport(remote *net.UDPAddr) (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: remote.IP})
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: socket}, nil
}

func download(scenario string, settings *tls.Config, address, sizes string, tell bool) error {
	ctx := context.Background()
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	first, err := transport(remote)
	if err != nil {
		return err
	}
	dial := first.Dial
	if scenario == "zerortt" {
		dial = first.DialEarly
	}
	conn, err := dial(ctx, remote, settings, config(scenario))
	if err != nil {
		return err
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
		state := conn.ConnectionState()
		if state.TLS.DidResume {
			fmt.Println("resumed")
		}
		if state.Used0RTT {
			fmt.Println("early")
		}
		fmt.Printf("version %#x\n", uint32(state.Version))
	}
	return conn.CloseWithError(0, "")
}

// move has a connection go on from another port.
func move(ctx context.Context, conn *quic.Conn, remote *net.UDPAddr) error {
	second, err := transport(remote)
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
