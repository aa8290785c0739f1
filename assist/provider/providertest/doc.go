// Package providertest has a test server for each provider, with the provider's wire
// format, and the [Suite] that every provider passes.
//
// Tests script the model ([Turn]) and inject faults ([Fault]) independently of the
// provider. Time is a [Clock] that the test advances.
package providertest
