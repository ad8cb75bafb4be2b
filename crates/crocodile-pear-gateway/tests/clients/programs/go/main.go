// Go's net/http: reads cases, asks the base URL, and prints what came of each as a line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
)

type told struct {
	Name     string      `json:"name"`
	Status   int         `json:"status,omitempty"`
	Fields   [][2]string `json:"fields"`
	Body     string      `json:"body"`
	At       string      `json:"at"`
	Trailers [][2]string `json:"trailers"`
	Interim  []int       `json:"interim"`
	Error    bool        `json:"error,omitempty"`
}

func list(header http.Header) [][2]string {
	all := [][2]string{}
	for name, values := range header {
		for _, value := range values {
			all = append(all, [2]string{strings.ToLower(name), value})
		}
	}
	return all
}

// A reader that hides how long it is.
type pieces struct{ io.Reader }

func main() {
	base := os.Args[2]
	transport := &http.Transport{}
	if os.Args[1] == "h2" {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		result, err := ask(transport, base, words)
		if err != nil {
			result = told{Name: words[0], Error: true}
		}
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
}

func ask(transport *http.Transport, base string, words []string) (told, error) {
	result := told{Name: words[0], Interim: []int{}}
	var body io.Reader
	if words[4] != "-" {
		size, _ := strconv.Atoi(words[4])
		body = strings.NewReader(strings.Repeat("y", size))
		if words[5] == "chunked" {
			body = pieces{body}
		}
	}
	request, err := http.NewRequest(words[1], base+words[2], body)
	if err != nil {
		return result, err
	}
	for _, field := range strings.Split(words[3], "\x1f") {
		if name, value, found := strings.Cut(field, ": "); found {
			request.Header.Add(name, value)
		}
	}
	interim := func(code int, _ textproto.MIMEHeader) error {
		result.Interim = append(result.Interim, code)
		return nil
	}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{Got1xxResponse: interim}))
	client := &http.Client{Transport: transport}
	if words[6] != "follow" {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	answer, err := client.Do(request)
	if err != nil {
		return result, err
	}
	defer answer.Body.Close()
	bytes, err := io.ReadAll(answer.Body)
	if err != nil {
		return result, err
	}
	result.Status, result.Fields, result.Body = answer.StatusCode, list(answer.Header), string(bytes)
	result.Trailers, result.At = list(answer.Trailer), answer.Request.URL.RequestURI()
	return result, nil
}
