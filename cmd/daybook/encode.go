package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Machine-readable instants are all of one form, in UTC with six digits of a
// second, so that they can be compared as text. encoding/json leaves out zeros
// at the end, and the types are not all this package's: so it writes what they
// consist of itself, as encoding/json would but for the instants.

// encode gives the JSON of a value, in one line.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := encodeTo(&b, reflect.ValueOf(v))
	return b.Bytes(), err
}

const instantLayout = `"2006-01-02T15:04:05.000000Z"`

var (
	instantType   = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func encodeTo(b *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		b.WriteString("null")
		return nil
	}
	t := v.Type()
	switch {
	case t == instantType:
		b.WriteString(v.Interface().(time.Time).UTC().Format(instantLayout))
		return nil
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return encodeTo(b, v.Elem())
	case t.Implements(marshalerType) || t.Implements(textType):
		return encodeStandard(b, v)
	}
	switch t.Kind() {
	case reflect.Struct:
		return encodeStruct(b, v)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Slice && v.IsNil() {
			return encodeStandard(b, v)
		}
		return encodeList(b, v)
	case reflect.Map:
		return encodeMap(b, v)
	default:
		return encodeStandard(b, v)
	}
}

func encodeStandard(b *bytes.Buffer, v reflect.Value) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v.Interface()); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line break
	return nil
}

func encodeList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encodeTo(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func encodeMap(b *bytes.Buffer, v reflect.Value) error {
	if v.IsNil() || v.Type().Key().Kind() != reflect.String {
		return encodeStandard(b, v)
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b.WriteByte('{')
	for i, k := range keys {
		if err := encodeMember(b, i, k.String(), v.MapIndex(k)); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func encodeStruct(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	n := 0
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue // of what is embedded, the fields are visited themselves
		}
		if name == "" {
			name = f.Name
		}
		member := v.FieldByIndex(f.Index)
		if strings.Contains(options, "omitempty") && isEmpty(member) || strings.Contains(options, "omitzero") && isZero(member) {
			continue
		}
		if err := encodeMember(b, n, name, member); err != nil {
			return err
		}
		n++
	}
	b.WriteByte('}')
	return nil
}

func encodeMember(b *bytes.Buffer, n int, name string, v reflect.Value) error {
	if n > 0 {
		b.WriteByte(',')
	}
	if err := encodeStandard(b, reflect.ValueOf(name)); err != nil {
		return err
	}
	b.WriteByte(':')
	if err := encodeTo(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// isEmpty is what omitempty leaves out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero is what omitzero leaves out.
func isZero(v reflect.Value) bool {
	if z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v); ok && v.Kind() != reflect.Pointer {
		return z.IsZero()
	}
	return v.IsZero()
}
