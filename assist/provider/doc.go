// Package provider is one interface over services that run a model's code next
// to files: OpenAI, Anthropic, Gemini, xAI, and Airlock's own sandbox.
//
// The hard part of such a service is neither the upload nor the request: it is to
// find and to fetch the files that the code wrote, before they are deleted. The
// services differ in how they return files (a listing, ids in result blocks, inline
// pictures, text only), and replies name files that do not exist. The parts around
// the interface know no provider:
//
//   - [Collector] looks for files in listings, citations, result blocks, inline
//     parts, links in the text and frames in the output. It fetches them at once into
//     a [Quarantine] and returns the names that were promised and not found.
//   - [Ledger] records an object before it is created at the provider, so that it can
//     be deleted, also after a crash.
//   - [UploadCache] sends the same bytes once.
//   - [Tracker] keeps a session alive and replaces an expired one by another with the
//     same files.
//   - [Retry] is the only place that repeats requests, [Limits] are checked before a
//     byte is sent, [Instruct] returns instructions about files for a model,
//     [Counters] count.
//
// Each provider has a package below this one and passes the suite of package
// providertest.
package provider
