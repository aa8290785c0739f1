// Package blob keeps the bytes of files in a directory, under their SHA-256.
//
// A blob lies at ab/abcdef..., where ab are the first two of its 64
// hexadecimal digits. Its name is its content, so two uploads of the same
// bytes share one blob, a blob never changes, and a reader may keep one open
// while it is deleted.
//
// Put returns only when the bytes survive a power cut. That takes an order:
// write a temporary file under tmp/, fsync it, close it, rename it to its
// name, fsync the directory that now names it. Each step can fail, and after
// a failed fsync the kernel may have thrown the dirty pages away and call a
// second fsync a success; therefore a file whose fsync failed is lost, is
// deleted, and is never tried again. Until the rename a blob is not visible;
// from the rename on it is whole. A crash leaves at most a temporary file or
// a blob that no file refers to, and Sweep removes both.
//
// Until the caller of Put has recorded the blob, nothing refers to it and a
// clean-up would delete it. So Put pins the blobs that it stores, and Delete
// and Sweep skip pinned blobs.
//
// The store trusts the index's lock to keep a second process away.
package blob
