// Package bucket keeps blobs in an S3 bucket, under PREFIX/sha256/DIGEST, and those
// that were used last in a directory of this machine.
//
// Objects are never changed: an object has the bytes of its name, or it is damaged. A
// Put returns when the bucket has the bytes; they are compared with their digest on the
// way in (by the bucket, x-amz-checksum-sha256 of each part) and on the way out (by the
// cache that they are read through).
//
// Replicas share the bucket, and none knows which blobs another is about to record. So
// Delete removes only the copy in the cache, and Sweep only objects that are older than
// an hour. A Put of bytes that exist and are older than half an hour stores them again,
// under the lock of their digest. Sweep checks the age again under that lock.
package bucket
