// Command oracle answers scheduling conformance cases with kube-scheduler's own framework code.
//
//	oracle < cases.jsonl > answered.jsonl
//
// Each line is one case, as tests/conformance/cases/README.md describes it. The answer is the same line with the
// "expect" (and in sequences the "placed") of this version of kube-scheduler; every other field is passed on unchanged.
// In sequences, steps about pods that were not placed are dropped and the node of an updated pod is filled in, so that a
// generator need not know where pods go.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func main() {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	metrics.Register()
	failed, err := answerAll(os.Stdin, os.Stdout, runtime.NumCPU())
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d cases left out", failed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// answerAll answers the lines of in, several at a time, and writes them in their order. A case which cannot be
// answered is reported and left out.
func answerAll(in io.Reader, out io.Writer, workers int) (failed int, err error) {
	type job struct {
		line   []byte
		answer chan []byte
		err    error
	}
	todo := make(chan *job, workers)
	order := make(chan *job, 4*workers)
	for range workers {
		go func() {
			for j := range todo {
				var answer []byte
				answer, j.err = answerLine(j.line)
				j.answer <- answer
			}
		}()
	}
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(order)
		defer close(todo)
		lines := bufio.NewReaderSize(in, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				j := &job{line: line, answer: make(chan []byte, 1)}
				order <- j
				todo <- j
			}
			if err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
		}
	})
	w := bufio.NewWriterSize(out, 1<<20)
	for j := range order {
		answer := <-j.answer
		if j.err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", j.err)
			failed++
			continue
		}
		w.Write(answer)
		w.WriteByte('\n')
	}
	reading.Wait()
	if readErr != nil {
		return failed, readErr
	}
	return failed, w.Flush()
}

// field is one member of a JSON object; objects keep the order of their members.
type field struct {
	name string
	raw  json.RawMessage
}

func parseObject(data []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %v", err)
	}
	var fields []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		fields = append(fields, field{name.(string), raw})
	}
	return fields, nil
}

func writeObject(fields []field) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(f.name))
		b.WriteByte(':')
		b.Write(f.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode is json.Marshal without the escaping of <, > and &.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func without(fields []field, names ...string) []field {
	var kept []field
next:
	for _, f := range fields {
		for _, n := range names {
			if f.name == n {
				continue next
			}
		}
		kept = append(kept, f)
	}
	return kept
}

// answerLine answers one case.
func answerLine(line []byte) (_ []byte, err error) {
	fields, err := parseObject(line)
	if err != nil {
		return nil, err
	}
	id := ""
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
		if err != nil {
			err = fmt.Errorf("case %s: %w", id, err)
		}
	}()
	fields = without(fields, "expect")
	c := &caseInput{}
	for _, f := range fields {
		if f.name == "id" {
			_ = json.Unmarshal(f.raw, &id)
		}
		if err := c.set(f.name, f.raw); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	profile, err := profileFor(c.pluginConfig)
	if err != nil {
		return nil, err
	}
	if c.steps == nil {
		e, err := evaluate(&c.cluster, profile, c.pod, c.group != "dra", c.group == "dra")
		if err != nil {
			return nil, err
		}
		if e.Unstable, err = unstable(c, profile, e); err != nil {
			return nil, err
		}
		return writeObject(append(fields, field{"expect", encode(e)})), nil
	}
	steps, err := answerSteps(c, profile)
	if err != nil {
		return nil, err
	}
	for i := range fields {
		if fields[i].name == "steps" {
			fields[i].raw = steps
		}
	}
	return writeObject(fields), nil
}
