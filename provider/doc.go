// Package provider is one interface over services that run a model's code next
// to files: OpenAI, Anthropic, Gemini, xAI, and our own sandbox.
//
// The hard part of such a service is neither the upload nor the request: it is
// to find and to fetch what the code wrote, before it is gone. The four differ
// in all of it (a listing, ids in result blocks, inline pictures, nothing but
// text), and what a reply says of its files is not always so. Hence the parts
// around the interface, which know no provider:
//
//   - [Collector] looks where files can be (listings, citations, result blocks,
//     inline parts, links in the text, frames in the output), fetches them at
//     once into a [Quarantine], and tells what was promised and not found.
//   - [Ledger] writes down what is about to be made at the provider, before it is
//     made, so that all of it can be deleted, also after a crash.
//   - [UploadCache] sends the same bytes once.
//   - [Tracker] keeps a session alive, sees when it has died, and makes another
//     with the same files.
//   - [Retry] is the one place that repeats, [Limits] are checked before a byte is
//     sent, [Instruct] is what the model is told about files, [Counters] count.
//
// Each provider is a package of its own below this one and passes the suite of
// package providertest.
package provider
