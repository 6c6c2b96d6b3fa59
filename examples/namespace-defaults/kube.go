package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	watchFor    = 45 * time.Second
	freshFor    = 60 * time.Second
	writeWithin = 5 * time.Second
	account     = "/var/run/secrets/kubernetes.io/serviceaccount/"
	patchType   = "application/strategic-merge-patch+json"
)

// Kubernetes is an API server.
type Kubernetes struct {
	server string
	client *http.Client
	token  func() string
}

type cluster struct {
	Server   string
	CA       []byte `json:"certificate-authority-data"`
	CAFile   string `json:"certificate-authority"`
	Insecure bool   `json:"insecure-skip-tls-verify"`
}

type user struct {
	Token, TokenFile string
	Cert             []byte `json:"client-certificate-data"`
	CertFile         string `json:"client-certificate"`
	Key              []byte `json:"client-key-data"`
	KeyFile          string `json:"client-key"`
}

// connect finds the API server by $BAILIFF_KUBECONFIG or $KUBECONFIG, or else as a pod's service account.
func connect() (*Kubernetes, error) {
	cluster, user, err := configured()
	if err != nil {
		return nil, err
	}
	ca, err1 := read(cluster.CA, cluster.CAFile)
	cert, err2 := read(user.Cert, user.CertFile)
	key, err3 := read(user.Key, user.KeyFile)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	security := &tls.Config{InsecureSkipVerify: cluster.Insecure}
	if ca != nil {
		security.RootCAs = x509.NewCertPool()
		security.RootCAs.AppendCertsFromPEM(ca)
	}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		security.Certificates = []tls.Certificate{pair}
	}
	token := func() string { return user.Token }
	if user.TokenFile != "" {
		token = func() string { // a mounted one is renewed
			text, err := os.ReadFile(user.TokenFile)
			if err != nil {
				log.Printf("The token cannot be read: %v", err)
			}
			return strings.TrimSpace(string(text))
		}
	}
	transport := &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: writesAtATime}
	return &Kubernetes{strings.TrimSuffix(cluster.Server, "/"), &http.Client{Transport: transport}, token}, nil
}

func configured() (cluster, user, error) {
	path := os.Getenv("BAILIFF_KUBECONFIG")
	if path == "" {
		path = os.Getenv("KUBECONFIG")
	}
	if path == "" {
		server := fmt.Sprintf("https://%s:%s", os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
		return cluster{Server: server, CAFile: account + "ca.crt"}, user{TokenFile: account + "token"}, nil
	}
	var config struct {
		Current  string `json:"current-context"`
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
		Clusters []struct {
			Name    string
			Cluster cluster
		}
		Users []struct {
			Name string
			User user
		}
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		return cluster{}, user{}, err
	}
	for _, context := range config.Contexts {
		for _, cluster := range config.Clusters {
			for _, user := range config.Users {
				if context.Name == config.Current && cluster.Name == context.Context.Cluster && user.Name == context.Context.User {
					for _, file := range []*string{&cluster.Cluster.CAFile, &user.User.CertFile, &user.User.KeyFile, &user.User.TokenFile} {
						if *file != "" && !filepath.IsAbs(*file) {
							*file = filepath.Join(filepath.Dir(path), *file)
						}
					}
					return cluster.Cluster, user.User, nil
				}
			}
		}
	}
	return cluster{}, user{}, fmt.Errorf("%s: context %q is not whole", path, config.Current)
}

func read(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return os.ReadFile(file)
}

// Refusal is an answer of the API server that is no success.
type Refusal struct {
	Code    int
	Message string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s", r.Code, r.Message) }

func codeOf(err error) int {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return 0
}

func (k *Kubernetes) open(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, k.server+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if method == http.MethodGet {
		request.Body, request.ContentLength = nil, 0
	} else {
		request.Header.Set("Content-Type", patchType)
	}
	if token := k.token(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer response.Body.Close()
	refusal := &Refusal{Message: response.Status}
	_ = json.NewDecoder(response.Body).Decode(refusal)
	refusal.Code = response.StatusCode
	return nil, refusal
}

// request makes one request and reads its answer.
func (k *Kubernetes) request(within time.Duration, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	stream, err := k.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer stream.Close()
	return json.NewDecoder(stream).Decode(answer)
}

// Sign is when something gave a sign of life last.
type Sign struct{ at atomic.Int64 }

var processStart = time.Now()

func (s *Sign) set() { s.at.Store(int64(time.Since(processStart)) + 1) }

// age is how long ago that was; nil: there never was one.
func (s *Sign) age() *time.Duration {
	at := s.at.Load()
	if at == 0 {
		return nil
	}
	age := max(time.Since(processStart)-time.Duration(at), 0)
	return &age
}

// Backoff is a pause before trying again: 100 ms, doubled up to 3.2 s, and up to half as much again by chance.
type Backoff int

func (b *Backoff) wait() {
	pause := 100 * time.Millisecond << min(*b, 5)
	*b++
	time.Sleep(pause + rand.N(pause/2))
}
