// The oracle for expressions: reads JSON lines, answers each with what Kubernetes' own code does.
//
// The first line declares the variables of the environment "policy". Each other line has an expression and its variables, or a
// device. The answer has a refusal, or a value or an error with the cost of the evaluation.
// celcases.py writes the lines and reads the answers.
package oracle

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type declaration struct {
	Type   string                 `json:"type"`
	Max    int64                  `json:"max"`
	Items  *declaration           `json:"items"`
	Name   string                 `json:"name"`
	Fields map[string]declaration `json:"fields"`
}

type device struct {
	Driver     string                                                   `json:"driver"`
	Multiple   bool                                                     `json:"multiple"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity"`
}

type question struct {
	Expression string         `json:"expression"`
	Variables  map[string]any `json:"variables"`
	Device     *device        `json:"device"`
	Limit      uint64         `json:"limit"`
}

type answer struct {
	Refusal  string   `json:"refusal,omitempty"`
	Type     string   `json:"type,omitempty"`
	Value    any      `json:"value,omitempty"`
	Error    string   `json:"error,omitempty"`
	Cost     *uint64  `json:"cost,omitempty"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var plain = map[string]*apiservercel.DeclType{
	"bool": apiservercel.BoolType, "int": apiservercel.IntType, "uint": apiservercel.UintType,
	"double": apiservercel.DoubleType, "string": apiservercel.StringType, "bytes": apiservercel.BytesType,
	"dyn": apiservercel.DynType, "duration": apiservercel.DurationType, "timestamp": apiservercel.TimestampType,
	"quantity": apiservercel.QuantityDeclType,
}

func (d declaration) declType() *apiservercel.DeclType {
	max := d.Max
	if max == 0 {
		max = math.MaxInt64
	}
	switch d.Type {
	case "list":
		return apiservercel.NewListType(d.Items.declType(), max)
	case "map":
		return apiservercel.NewMapType(apiservercel.StringType, d.Items.declType(), max)
	case "object":
		fields := map[string]*apiservercel.DeclField{}
		for name, field := range d.Fields {
			fields[name] = apiservercel.NewDeclField(name, field.declType(), true, nil, nil)
		}
		return apiservercel.NewObjectType(d.Name, fields)
	case "semver":
		return apiservercel.NewSimpleTypeWithMinSize("kubernetes.Semver", apiservercel.SemverType, nil, 8)
	}
	found := *plain[d.Type]
	if d.Max != 0 {
		found.MaxElements = d.Max
	}
	return &found
}

func policy(variables map[string]declaration) *cel.Env {
	var options []cel.EnvOption
	var declared []*apiservercel.DeclType
	names := make([]string, 0, len(variables))
	for name := range variables {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		kind := variables[name].declType()
		options = append(options, cel.Variable(name, kind.CelType()))
		if kind.IsObject() {
			declared = append(declared, kind)
		}
	}
	options = append(options, ext.Bindings(ext.BindingsVersion(0)))
	set := must(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options, DeclTypes: declared,
	}))
	return set.StoredExpressionsEnv()
}

func decode(value any) ref.Val {
	for kind, content := range value.(map[string]any) {
		text, _ := content.(string)
		switch kind {
		case "null":
			return types.NullValue
		case "bool":
			return types.Bool(content.(bool))
		case "int":
			return types.Int(must(strconv.ParseInt(text, 10, 64)))
		case "uint":
			return types.Uint(must(strconv.ParseUint(text, 10, 64)))
		case "double":
			return types.Double(math.Float64frombits(must(strconv.ParseUint(text, 16, 64))))
		case "string":
			return types.String(text)
		case "bytes":
			return types.Bytes(must(base64.StdEncoding.DecodeString(text)))
		case "duration":
			return types.Duration{Duration: time.Duration(must(strconv.ParseInt(text, 10, 64)))}
		case "timestamp":
			return types.Timestamp{Time: must(time.Parse(time.RFC3339Nano, text))}
		case "quantity":
			quantity := must(resource.ParseQuantity(text))
			return apiservercel.Quantity{Quantity: &quantity}
		case "semver":
			return apiservercel.Semver{Version: must(semver.Parse(text))}
		case "list":
			elements := []ref.Val{}
			for _, element := range content.([]any) {
				elements = append(elements, decode(element))
			}
			return types.NewRefValList(types.DefaultTypeAdapter, elements)
		case "map":
			entries := map[ref.Val]ref.Val{}
			for _, entry := range content.([]any) {
				pair := entry.([]any)
				entries[decode(pair[0])] = decode(pair[1])
			}
			return types.NewRefValMap(types.DefaultTypeAdapter, entries)
		}
	}
	panic(fmt.Sprintf("unknown value %v", value))
}

func encode(value ref.Val) any {
	switch v := value.(type) {
	case types.Null:
		return map[string]any{"null": true}
	case types.Bool:
		return map[string]any{"bool": bool(v)}
	case types.Int:
		return map[string]any{"int": strconv.FormatInt(int64(v), 10)}
	case types.Uint:
		return map[string]any{"uint": strconv.FormatUint(uint64(v), 10)}
	case types.Double:
		return map[string]any{"double": strconv.FormatUint(math.Float64bits(float64(v)), 16)}
	case types.String:
		return map[string]any{"string": string(v)}
	case types.Bytes:
		return map[string]any{"bytes": base64.StdEncoding.EncodeToString(v)}
	case types.Duration:
		return map[string]any{"duration": strconv.FormatInt(int64(v.Duration), 10)}
	case types.Timestamp:
		return map[string]any{"timestamp": v.Time.UTC().Format(time.RFC3339Nano)}
	case *types.Optional:
		if !v.HasValue() {
			return map[string]any{"optional": []any{}}
		}
		return map[string]any{"optional": []any{encode(v.GetValue())}}
	case apiservercel.Quantity:
		return map[string]any{"quantity": v.Quantity.AsDec().String()}
	case *apiservercel.Quantity:
		return map[string]any{"quantity": v.Quantity.AsDec().String()}
	case apiservercel.Semver:
		return map[string]any{"semver": v.Version.String()}
	case ref.Type:
		return map[string]any{"type": v.TypeName()}
	case traits.Lister:
		elements := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			elements = append(elements, encode(it.Next()))
		}
		return map[string]any{"list": elements}
	case traits.Mapper:
		entries := [][]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, []any{encode(key), encode(v.Get(key))})
		}
		return map[string]any{"map": entries}
	}
	return map[string]any{"other": fmt.Sprintf("%s %v", value.Type().TypeName(), value.Value())}
}

func evaluate(env *cel.Env, asked question) (result answer) {
	defer func() {
		if crash := recover(); crash != nil {
			result = answer{Refusal: fmt.Sprintf("crash: %v", crash)}
		}
	}()
	ast, issues := env.Compile(asked.Expression)
	if issues != nil && issues.Err() != nil {
		return answer{Refusal: issues.String()}
	}
	program, err := env.Program(ast, cel.CostLimit(asked.Limit))
	if err != nil {
		return answer{Refusal: "program: " + err.Error()}
	}
	result.Type = ast.OutputType().String()
	variables := map[string]any{}
	for name, value := range asked.Variables {
		variables[name] = decode(value)
	}
	value, details, err := program.Eval(variables)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = encode(value)
	return result
}

func matches(asked question) answer {
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compiled := compiler.CompileCELExpression(asked.Expression, dracel.Options{CostLimit: &asked.Limit})
	if compiled.Error != nil {
		return answer{Refusal: compiled.Error.Error()}
	}
	result := answer{Type: compiled.OutputType.String()}
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, amount := range asked.Device.Capacity {
		capacity[name] = resourceapi.DeviceCapacity{Value: amount}
	}
	value, details, err := compiled.DeviceMatches(context.Background(), dracel.Device{
		Driver: asked.Device.Driver, AllowMultipleAllocations: &asked.Device.Multiple,
		Attributes: asked.Device.Attributes, Capacity: capacity,
	})
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = map[string]any{"bool": value}
	return result
}

func TestMain(m *testing.M) {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	decoder := json.NewDecoder(input)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	var variables map[string]declaration
	if err := decoder.Decode(&variables); err != nil {
		panic(err)
	}
	env := policy(variables)
	for decoder.More() {
		var asked question
		if err := decoder.Decode(&asked); err != nil {
			panic(err)
		}
		if asked.Device != nil {
			_ = encoder.Encode(matches(asked))
		} else {
			_ = encoder.Encode(evaluate(env, asked))
		}
	}
}
