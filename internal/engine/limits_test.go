package engine

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever one field of the limits is set, all others have their defaults, those of an
// inner struct too.
func TestOneLimitLosesNoDefault(t *testing.T) {
	defaults := nativeDefaults
	defaults.CPUTime, defaults.CPUs = 1, 1
	eachField(reflect.ValueOf(new(Limits)).Elem(), nil, func(path []int, of reflect.StructField) {
		var asked Limits
		want := defaults
		for _, limits := range []*Limits{&asked, &want} {
			set(reflect.ValueOf(limits).Elem().FieldByIndex(path))
		}
		if diff := cmp.Diff(want, asked.Or(defaults)); diff != "" {
			t.Errorf("with %s alone:\n%s", of.Name, diff)
		}
	})
}

// eachField calls do with each field that is not a struct.
func eachField(v reflect.Value, at []int, do func(path []int, of reflect.StructField)) {
	for i := range v.NumField() {
		path := slices.Concat(at, []int{i})
		if v.Field(i).Kind() == reflect.Struct {
			eachField(v.Field(i), path, do)
		} else {
			do(path, v.Type().Field(i))
		}
	}
}

// set gives a field a value that no default has.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("own")
	case reflect.Float64:
		v.SetFloat(7)
	default:
		v.SetInt(7)
	}
}
