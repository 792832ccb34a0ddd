package main

import (
	"fmt"
	"net/http"
	"sync"
)

// readiness answers /readyz: 200 when nothing is pending, else 503 with what is.
type readiness struct {
	mu      sync.Mutex
	known   bool
	pending string
}

// set says what the agent waits for; nothing ("") means that it is ready.
func (r *readiness) set(pending string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.pending = true, pending
}

func (r *readiness) waitsFor() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		return "the API server is being read"
	}
	return r.pending
}

func (r *readiness) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	if pending := r.waitsFor(); pending != "" {
		http.Error(response, "not ready: "+pending, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(response, "ok")
}
