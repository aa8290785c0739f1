package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.Images = (*Images)(nil)

// Images are the images of a cluster: under PREFIX/images/names/NAME.json what is known of a name,
// and under PREFIX/images/ID.tar.zst the files of an image.
type Images struct {
	address Address
	client  *minio.Client
	clock   *serverTime
	fault   error // of the address

	mu      sync.Mutex
	known   map[string]record // by name
	looked  time.Time         // at the bucket, the last time that it answered
	tried   time.Time
	failure error    // of the last try
	running *looking // nil: nobody looks
}

// looking is a look at the bucket in progress.
type looking struct{ done chan struct{} }

// record is what is known of a name.
type record struct {
	engine.Image
	// Asked are the modules that were to be preloaded; nil: those that the image's label names.
	Asked []string `json:"asked,omitempty"`
	etag  string
}

// How old what is known of the names may be, when requests ask for one.
const (
	freshTime  = 2 * time.Second // after it the bucket is asked in the background
	staleTime  = 4 * time.Second // after it the bucket is asked first
	missedTime = time.Second     // the same for a name that is not known
	retryTime  = 2 * time.Second // between two tries while the bucket is away
	lookTime   = 3 * time.Second // for a look
	idleTime   = time.Minute     // staleTime for a list that need not be fresh
)

// NewImages returns the images in a bucket. It does not connect.
func NewImages(address string) *Images {
	i := &Images{clock: &serverTime{}}
	if i.address, i.fault = ParseAddress(address); i.fault == nil {
		i.client, i.fault = i.address.client(i.clock.through)
	}
	return i
}

// Find implements engine.Images.
func (i *Images) Find(name string) (engine.Image, bool, error) {
	known, err := i.records(freshTime, staleTime)
	if err != nil {
		return engine.Image{}, false, err
	}
	if _, ok := known[name]; !ok { // it may have been added just now
		if known, err = i.records(missedTime, missedTime); err != nil {
			return engine.Image{}, false, err
		}
	}
	r, ok := known[name]
	return r.Image, ok, nil
}

// List implements engine.Images.
func (i *Images) List() ([]engine.Image, error) {
	known, err := i.records(freshTime, staleTime)
	list := []engine.Image{}
	for _, r := range known {
		list = append(list, r.Image)
	}
	slices.SortFunc(list, func(a, b engine.Image) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// IDs returns the ids of all images as of the last minute, and false if they are not known.
func (i *Images) IDs() (ids []string, ok bool) {
	known, err := i.records(idleTime, 0)
	for _, r := range known {
		ids = append(ids, r.ID)
	}
	return ids, err == nil && known != nil
}

// records returns what is known of all names. It looks at the bucket in the background if that
// is older than fresh, and before it returns if that is older than stale; 0: never before.
// While the bucket is away what was known goes on.
func (i *Images) records(fresh, stale time.Duration) (map[string]record, error) {
	if i.fault != nil {
		return nil, failed("find image", "", i.fault)
	}
	i.mu.Lock()
	age, now := time.Since(i.looked), time.Now()
	running := i.running
	if age > fresh && running == nil && (i.failure == nil || now.Sub(i.tried) > retryTime) {
		running = &looking{done: make(chan struct{})}
		i.running, i.tried = running, now
		go i.look(running, i.known)
	}
	i.mu.Unlock()
	if running != nil && stale > 0 && age > stale {
		<-running.done
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		return nil, i.failure
	}
	return i.known, nil
}

// look reads the records that have changed. It ends within lookTime.
func (i *Images) look(running *looking, known map[string]record) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	known, err := i.read(ctx, known)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failure = failed("find image", "", err)
	if i.running = nil; err == nil {
		i.known, i.looked = known, i.tried
	}
	close(running.done)
}

// read returns the records of all names, of which those with the same version are known.
func (i *Images) read(ctx context.Context, known map[string]record) (map[string]record, error) {
	all := map[string]record{}
	prefix := i.key("names") + "/"
	for object := range i.client.ListObjectsIter(ctx, i.address.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if object.Err != nil {
			return nil, object.Err
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(object.Key, prefix), ".json")
		if !ok {
			continue
		}
		if r, ok := known[name]; ok && r.etag == object.ETag {
			all[name] = r
			continue
		}
		r, err := i.record(ctx, name)
		if engine.KindOf(err) == engine.ErrNotFound {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all[name] = r
	}
	return all, nil
}

// maxRecord bounds what is known of an image.
const maxRecord = 4 << 20

// record reads what the bucket knows of a name.
func (i *Images) record(ctx context.Context, name string) (r record, err error) {
	const op = "find image"
	o, err := i.client.GetObject(ctx, i.address.Bucket, i.name(name), minio.GetObjectOptions{})
	if err != nil {
		return record{}, failed(op, name, err)
	}
	defer o.Close()
	text, err := io.ReadAll(io.LimitReader(o, maxRecord))
	if err != nil {
		return record{}, failed(op, name, err)
	}
	info, err := o.Stat()
	if err != nil {
		return record{}, failed(op, name, err)
	}
	if err := json.Unmarshal(text, &r); err != nil || r.ID == "" || r.Archive == nil {
		return record{}, &engine.Error{Op: op, ID: name, Kind: engine.ErrUnavailable,
			Err: errors.New("what the bucket knows of it is damaged"), Hint: "remove it, and add it again"}
	}
	r.Name, r.etag = name, info.ETag
	return r, nil
}

func (i *Images) key(names ...string) string {
	return path.Join(append([]string{i.address.Prefix, "images"}, names...)...)
}

func (i *Images) name(name string) string  { return i.key("names", name+".json") }
func (i *Images) archive(id string) string { return i.key(id + ".tar.zst") }

// Get returns the image of a name as the bucket has it now, with the modules that were asked for.
func (i *Images) Get(ctx context.Context, name string) (image engine.Image, asked []string, err error) {
	if i.fault != nil {
		return image, nil, failed("find image", "", i.fault)
	}
	r, err := i.record(ctx, name)
	return r.Image, r.Asked, err
}

// Put stores an image under its name, after its files unless the bucket has them. pack writes
// their archive.
func (i *Images) Put(ctx context.Context, image engine.Image, asked []string, pack func(io.Writer) error) error {
	const op = "store image"
	for {
		archive, err := i.archiveOf(ctx, image.ID)
		if err == nil && archive == nil {
			archive, err = i.send(ctx, image.ID, pack)
		}
		if err != nil {
			return failed(op, image.Name, err)
		}
		image.Archive = archive
		text, err := json.Marshal(record{Image: image, Asked: asked})
		if err != nil {
			return err
		}
		_, err = i.client.PutObject(ctx, i.address.Bucket, i.name(image.Name), strings.NewReader(string(text)),
			int64(len(text)), minio.PutObjectOptions{ContentType: "application/json", SendContentMd5: true})
		if err != nil {
			return failed(op, image.Name, err)
		}
		// Somebody may have removed the last name that the archive had.
		if size, _, err := i.stat(ctx, image.ID); err != nil || size == archive.Size {
			return failed(op, image.Name, err)
		}
	}
}

// stat returns the size of an archive, or absent.
func (i *Images) stat(ctx context.Context, id string) (size int64, changed time.Time, err error) {
	info, err := i.client.StatObject(ctx, i.address.Bucket, i.archive(id), minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound && !isNoBucket(err) {
		return absent, time.Time{}, nil
	}
	return info.Size, info.LastModified, err
}

// archiveOf returns the archive of an image that the bucket has under some name; nil: none.
func (i *Images) archiveOf(ctx context.Context, id string) (*engine.Blob, error) {
	all, err := i.read(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.ID != id {
			continue
		}
		if size, _, err := i.stat(ctx, id); err != nil || size == r.Archive.Size {
			return r.Archive, err
		}
	}
	return nil, nil
}

// archivePart is how much of an archive is in memory at once.
const archivePart = 16 << 20

// send stores an archive. The bucket compares each part with its checksum, and has nothing if the
// archive does not come to its end.
func (i *Images) send(ctx context.Context, id string, pack func(io.Writer) error) (*engine.Blob, error) {
	from, to := io.Pipe()
	packed := make(chan error, 1)
	sum := sha256.New()
	go func() {
		err := pack(io.MultiWriter(sum, to))
		to.CloseWithError(err)
		packed <- err
	}()
	info, err := i.client.PutObject(ctx, i.address.Bucket, i.archive(id), from, -1,
		minio.PutObjectOptions{ContentType: "application/zstd", PartSize: archivePart, SendContentMd5: true})
	from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if failed := <-packed; err == nil {
		err = failed
	}
	return &engine.Blob{SHA256: engine.Digest(sum.Sum(nil)), Size: info.Size}, err
}

// Remove removes a name, and archives that have none.
func (i *Images) Remove(ctx context.Context, name string) error {
	const op = "remove image"
	if i.fault != nil {
		return failed(op, name, i.fault)
	}
	if _, err := i.client.StatObject(ctx, i.address.Bucket, i.name(name), minio.StatObjectOptions{}); err != nil {
		return failed(op, name, err)
	}
	err := i.client.RemoveObject(ctx, i.address.Bucket, i.name(name), minio.RemoveObjectOptions{})
	if err == nil {
		err = i.Sweep(ctx)
	}
	return failed(op, name, err)
}

// Sweep removes archives without a name that are older than an hour: another one may be about to
// get its name. A run that was just admitted may still fetch it.
func (i *Images) Sweep(ctx context.Context) error {
	named := map[string]bool{}
	all, err := i.read(ctx, nil)
	if err != nil {
		return failed("sweep images", "", err)
	}
	for _, r := range all {
		named[i.archive(r.ID)] = true
	}
	prefix := i.key() + "/"
	for object := range i.client.ListObjectsIter(ctx, i.address.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if object.Err != nil {
			return failed("sweep images", "", object.Err)
		}
		if !strings.HasSuffix(object.Key, ".tar.zst") || named[object.Key] ||
			i.clock.now().Sub(object.LastModified) < grace {
			continue
		}
		err := i.client.RemoveObject(ctx, i.address.Bucket, object.Key, minio.RemoveObjectOptions{})
		if err != nil {
			return failed("sweep images", "", err)
		}
	}
	return nil
}

// Sign returns an address at which the archive of an image can be read for a while.
func (i *Images) Sign(ctx context.Context, id string) (string, error) {
	const op = "fetch image"
	switch size, _, err := i.stat(ctx, id); {
	case err != nil:
		return "", failed(op, id, err)
	case size == absent:
		return "", errNoArchive(id)
	}
	u, err := i.client.PresignedGetObject(ctx, i.address.Bucket, i.archive(id), validity(i.clock.now()), nil)
	if err != nil {
		return "", failed(op, id, err)
	}
	return u.String(), nil
}

func errNoArchive(id string) error {
	return &engine.Error{Op: "fetch image", ID: id, Kind: engine.ErrNotFound,
		Err: errors.New("the image was removed from the bucket"), Hint: "`airlock images list` lists those that are there"}
}

// Open opens the archive of an image.
func (i *Images) Open(ctx context.Context, id string) (io.ReadCloser, error) {
	o, err := i.client.GetObject(ctx, i.address.Bucket, i.archive(id), minio.GetObjectOptions{})
	if err != nil {
		return nil, failed("fetch image", id, err)
	}
	if _, err := o.Stat(); err != nil {
		o.Close()
		if err = failed("fetch image", id, err); engine.KindOf(err) == engine.ErrNotFound {
			err = errNoArchive(id)
		}
		return nil, err
	}
	return o, nil
}
