// Package providertest has a test server for each provider, which speaks the
// provider's wire format from tables of its own, and the [Suite] that every
// provider passes.
//
// A server is told what the model does next ([Turn]) and what goes wrong
// ([Fault]) in words that know no provider; it says both in its own format. Time
// is a [Clock] that the test turns.
package providertest
