package domain

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// plain are the decoders that quick stands before.
var plain = map[string]func([]byte) (Event, error){
	"RunClaimed": decode[RunClaimed], "RunStarted": decode[RunStarted], "RunSucceeded": decode[RunSucceeded],
}

// FuzzQuickDecoding: what is read without reflection is what encoding/json reads.
func FuzzQuickDecoding(f *testing.F) {
	for typ := range plain {
		files, err := filepath.Glob("testdata/events/" + typ + "*.json")
		if err != nil || len(files) == 0 {
			f.Fatal(files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	const id = `"claim_id": "018f0000-0000-7000-8000-000000000001"`
	for _, s := range []string{
		`{}`, ` { } `, `{` + id + `}`, `{` + id + `,}`, `{,` + id + `}`, `{` + id + `}}`, `{` + id + `} x`, `{` + id, `{` + id + `, "attempt": 01}`,
		`{"attempt": 1}`, `{"attempt": -1}`, `{"attempt": 1.0}`, `{"attempt": 1e2}`, `{"attempt": 99999999999999999999}`, `{"attempt": 1, "attempt": 2}`, `{"attempt":1 }`,
		`{"Attempt": 3}`, `{"attempt": null}`, `{"attempt": "1"}`, `{"attempt": }`, `{"attempt" 1}`, `{"dispatch": 7, "later": {"x": [1]}}`,
		`{"claim_id": "018F0000-0000-7000-8000-00000000000A"}`, `{"claim_id": "{018f0000-0000-7000-8000-000000000001}"}`, `{"claim_id": ""}`, `{"claim_id": "x"}`,
		`{"worker": "a\u0062"}`, "{\"worker\": \"\xff\"}", `{"worker": "é"}`, `{"worker": "unclosed}`,
		`{"lease_until": "2027-02-30T00:00:00Z"}`, `{"lease_until": "2027-03-01T00:00:00.5+01:00"}`, `{"lease_until": "2027-03-01"}`, `{"deadline": "2027-03-01T00:00:00Z", "deadline": null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for typ, decode := range plain {
			want, wantErr := decode(data)
			have, err := decoders[typ](data)
			if (err != nil) != (wantErr != nil) || err == nil && !reflect.DeepEqual(have, want) {
				t.Errorf("%s of %q: %+v, %v; want %+v, %v", typ, data, have, err, want, wantErr)
			}
		}
	})
}

func BenchmarkDecodeStarted(b *testing.B) {
	files, err := filepath.Glob("testdata/events/RunStarted*.json")
	if err != nil || len(files) == 0 {
		b.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		b.Fatal(err)
	}
	for _, way := range []struct {
		name string
		f    func([]byte) (Event, error)
	}{{"quick", decoders["RunStarted"]}, {"plain", plain["RunStarted"]}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := way.f(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
