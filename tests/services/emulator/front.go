package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A handler answers a request.
type handler func(kmsg.Request) (kmsg.Response, error)

// A rule is one way in which a service differs from the brokers behind it.
type rule struct {
	// key is the request that the rule is about.
	key kmsg.Key
	// around answers the request: by itself, or by what next answers to it.
	around func(request kmsg.Request, next handler) (kmsg.Response, error)
	// forAll is set for a rule about what exists, not about what is answered: it holds for the inspector too.
	forAll bool
}

// inspector is the client id of the reader of this program, to which no service denies anything.
const inspector = "inspector"

// A front is a listener with a broker behind it, and rules between the two.
type front struct {
	listener net.Listener
	broker   string
	rules    []rule
}

// openFronts returns a front before each broker, on a free port; clients are told the ports of the fronts.
func openFronts(addresses []string) ([]*front, error) {
	var fronts []*front
	ports := map[int32]int32{}
	for _, address := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		behind, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			return nil, err
		}
		each := &front{listener: listener, broker: address}
		ports[int32(behind.Port)] = int32(each.port())
		fronts = append(fronts, each)
	}
	for _, each := range fronts {
		each.rules = readdress(ports)
	}
	return fronts, nil
}

func (f *front) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

const maxFrame = 100 << 20

var errNotOffered = errors.New("the request is not offered")

// serve accepts connections until the listener is closed.
func (f *front) serve() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.relay(client)
	}
}

// relay serves the requests of one connection, one after the other.
//
// As a broker does, it closes the connection at a request that it does not offer. It also writes a line about it.
func (f *front) relay(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", f.broker)
	if err != nil {
		return
	}
	defer broker.Close()
	offered := map[int16]int16{}
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		answer, err := f.answer(broker, frame, offered)
		if err == nil {
			err = writeFrame(client, answer)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Println("closed:", err)
			}
			return
		}
	}
}

// answer returns the frame that answers a frame; offered is what this connection was told of versions.
func (f *front) answer(broker net.Conn, frame []byte, offered map[int16]int16) ([]byte, error) {
	header, request, err := parseHeader(frame)
	if err != nil {
		return nil, err
	}
	key, version := request.Key(), request.GetVersion()
	rules := f.rulesFor(header, key)
	if newest, known := offered[key]; key != int16(kmsg.ApiVersions) && len(offered) > 0 && (!known || version > newest) {
		return nil, fmt.Errorf("%w: %s in version %d", errNotOffered, kmsg.NameForKey(key), version)
	}
	if len(rules) == 0 && key != int16(kmsg.ApiVersions) {
		return pass(broker, frame)
	}
	if err := request.ReadFrom(frame[len(header.bytes):]); err != nil {
		return nil, err
	}
	handle := func(request kmsg.Request) (kmsg.Response, error) { return ask(broker, header, request) }
	for _, each := range rules {
		next := handle
		handle = func(request kmsg.Request) (kmsg.Response, error) { return each.around(request, next) }
	}
	response, err := handle(request)
	if err != nil {
		return nil, err
	}
	if versions, ok := response.(*kmsg.ApiVersionsResponse); ok {
		clear(offered)
		for _, each := range versions.ApiKeys {
			offered[each.ApiKey] = each.MaxVersion
		}
	}
	return encode(header, response), nil
}

// rulesFor returns the rules for a request of one client; each is around those before it.
func (f *front) rulesFor(header header, key int16) []rule {
	return slices.DeleteFunc(slices.Clone(f.rules), func(each rule) bool {
		return int16(each.key) != key || header.client == inspector && !each.forAll
	})
}

type header struct {
	bytes  []byte // all of it, to be sent again
	id     []byte // the correlation id
	client string
}

// parseHeader returns the header of a request, and an empty request of its key and version.
func parseHeader(frame []byte) (header, kmsg.Request, error) {
	if len(frame) < 10 {
		return header{}, nil, io.ErrUnexpectedEOF
	}
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	request := kmsg.RequestForKey(key)
	if request == nil {
		return header{}, nil, fmt.Errorf("%w: key %d", errNotOffered, key)
	}
	request.SetVersion(version)
	client, end := "", 10
	if length := int16(binary.BigEndian.Uint16(frame[8:])); length > 0 {
		end += int(length)
		client = string(frame[10:end])
	}
	if request.IsFlexible() {
		end++ // no client of these tests sends tags in a header
	}
	return header{frame[:end], frame[4:8], client}, request, nil
}

// ask sends a request to the broker and returns its answer.
func ask(broker net.Conn, header header, request kmsg.Request) (kmsg.Response, error) {
	answer, err := pass(broker, request.AppendTo(slices.Clone(header.bytes)))
	if err != nil {
		return nil, err
	}
	response := request.ResponseKind()
	start := 4
	if response.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		start++
	}
	return response, response.ReadFrom(answer[start:])
}

// pass sends a frame to the broker and returns the frame that answers it.
func pass(broker net.Conn, frame []byte) ([]byte, error) {
	if err := writeFrame(broker, frame); err != nil {
		return nil, err
	}
	return readFrame(broker)
}

func encode(header header, response kmsg.Response) []byte {
	frame := slices.Clone(header.id)
	if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
		frame = append(frame, 0)
	}
	return response.AppendTo(frame)
}

func readFrame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, io.EOF
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, io.EOF
	}
	return frame, nil
}

func writeFrame(to io.Writer, frame []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	if err != nil {
		return io.EOF
	}
	return nil
}
