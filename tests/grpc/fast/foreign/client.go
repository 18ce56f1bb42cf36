// A Go client of an echo: raw messages of many sizes, concurrency, deadlines, cancellation, keepalive, compression.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string   { return "proto" }
func (raw) String() string { return "proto" }

func check(isTrue bool, what string, details ...interface{}) {
	if !isTrue {
		fmt.Println(append([]interface{}{"failed:", what}, details...)...)
		os.Exit(1)
	}
}

func main() {
	security := grpc.WithInsecure()
	if len(os.Args) > 2 {
		authority, err := credentials.NewClientTLSFromFile(os.Args[2], "")
		check(err == nil, "the certificate", err)
		security = grpc.WithTransportCredentials(authority)
	}
	connection, err := grpc.Dial(os.Args[1], security, grpc.WithBlock(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
	check(err == nil, "dial", err)
	call := func(name string, seconds float64, sent []byte, options ...grpc.CallOption) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "x-request-id", fmt.Sprint(time.Now().UnixNano()))
		var answer []byte
		err := connection.Invoke(ctx, "/test.Echo/"+name, &sent, &answer, options...)
		return answer, err
	}
	for _, size := range []int{0, 1, 16379, 65535, 1000000, 5000000} {
		sent := bytes.Repeat([]byte("x"), size)
		answer, err := call("Call", 20, sent)
		check(err == nil && bytes.Equal(answer, sent), "echo", size, err)
	}
	answer, err := call("Call", 20, make([]byte, 100000), grpc.UseCompressor("gzip"))
	check(err == nil && len(answer) == 100000, "gzip", err)
	var group sync.WaitGroup
	for worker := 0; worker < 50; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := 0; number < 100; number++ {
				answer, err := call("Large", 20, []byte("20000"))
				check(err == nil && len(answer) == 20000, "concurrent", err)
			}
		}()
	}
	group.Wait()
	_, err = call("Slow", 0.2, []byte("10"))
	check(status.Code(err) == codes.DeadlineExceeded, "deadline", err)
	_, err = call("Missing", 5, nil)
	check(status.Code(err) == codes.Unimplemented, "unimplemented", err)
	time.Sleep(12 * time.Second)
	check(connection.GetState() == connectivity.Ready, "pings without calls keep the connection")
	_, err = call("Call", 5, nil)
	check(err == nil, "after the pause", err)
	fmt.Println("all is well")
}
