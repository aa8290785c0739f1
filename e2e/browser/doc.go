// Package browser drives the page of a real service with Debian's Chromium,
// as a person would: every flow, in light and dark and on a narrow screen,
// with hostile content, and with a clock beside it. It has nothing but tests.
//
// They need Chromium, and runtimes/ in $AIRLOCK_TEST_DATA, a data directory
// that `airlock setup` made. Screenshots for a person to look at go to out/.
package browser
