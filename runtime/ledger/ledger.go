package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/runtime"
)

// Config says where the ledger is. Path is required.
type Config struct {
	// Path is the database file; SQLite keeps "-wal" and "-shm" beside it, and
	// a writing ledger a ".lock".
	Path string
	// ReadOnly opens a ledger that another process may be writing: nothing is
	// created, migrated or changed, and every write is refused.
	ReadOnly bool
	// Logger takes what nobody waits for; nil discards it.
	Logger *slog.Logger
	// Now is the clock of events; nil is time.Now.
	Now func() time.Time
	// NoteDelay is how long a note may wait for company; 0 is 20 ms.
	NoteDelay time.Duration
	// Readers bounds the connections of the read pool; 0 is 4.
	Readers int
	// CheckpointOps is after how many operations the write-ahead log is moved
	// into the database; 0 is 1,000.
	CheckpointOps int
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NoteDelay <= 0 {
		c.NoteDelay = 20 * time.Millisecond
	}
	if c.Readers <= 0 {
		c.Readers = 4
	}
	if c.CheckpointOps <= 0 {
		c.CheckpointOps = 250
	}
	return c
}

// A Ledger is the record of all runs in one database. It is safe for
// concurrent use.
type Ledger struct {
	config    Config
	readers   *sql.DB
	followers followers
	queue     *queue
	writer    *writer  // nil when read-only
	lock      *os.File // nil when read-only
	closing   sync.Once
	closeErr  error
}

var _ runtime.Journal = (*Ledger)(nil)

// Open opens the ledger, makes it where there is none, and brings its schema
// up to date. Only one process can have it open for writing. A database that a
// newer program wrote is refused.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	if config.Path == "" {
		return nil, errors.New("ledger: the configuration names no path")
	}
	l := &Ledger{config: config.withDefaults()}
	if config.ReadOnly {
		return l.openReadOnly(ctx)
	}
	return l.openWriting(ctx)
}

func (l *Ledger) openReadOnly(ctx context.Context) (*Ledger, error) {
	if _, err := os.Stat(l.config.Path); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l.queue = newQueue(l.config.Now)
	l.queue.close()
	if err := l.openReaders(ctx); err != nil {
		return nil, err
	}
	conn, err := l.readers.Conn(ctx)
	if err == nil {
		err = checkSchema(ctx, conn)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		return nil, errors.Join(err, l.readers.Close())
	}
	return l, nil
}

// checkSchema demands exactly the schema that this program reads.
func checkSchema(ctx context.Context, conn *sql.Conn) error {
	steps, err := migrations(migrationFiles)
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if have < len(steps) {
		return fmt.Errorf("ledger: the database has schema version %d and this program reads %d; "+
			"start the service once to bring it up to date", have, len(steps))
	}
	return checkVersion(have, len(steps))
}

func (l *Ledger) openWriting(ctx context.Context) (*Ledger, error) {
	lock, err := lockFile(l.config.Path + ".lock")
	if err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, l)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l.lock, l.writer, l.queue = lock, w, newQueue(l.config.Now)
	if err := l.openReaders(ctx); err != nil {
		return nil, errors.Join(err, w.shut(), lock.Close())
	}
	w.start(l.queue)
	return l, nil
}

// lockFile takes the lock that makes this process the only writer. The heads
// of the chains are kept in memory, so that a second writer would fork them.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: another process writes this ledger: %w", err), f.Close())
	}
	return f, nil
}

func (l *Ledger) openReaders(ctx context.Context) error {
	db, err := sql.Open("sqlite", dsn(l.config.Path, "mode=ro", "_pragma=query_only(1)"))
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	db.SetMaxOpenConns(l.config.Readers)
	db.SetMaxIdleConns(l.config.Readers)
	if err := db.PingContext(ctx); err != nil {
		return errors.Join(fmt.Errorf("ledger: open %s: %w", l.config.Path, err), db.Close())
	}
	l.readers = db
	return nil
}

// dsn names the database for the driver; busy_timeout (milliseconds) comes
// first, so that it holds for the other pragmas.
func dsn(path string, options ...string) string {
	s := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String()
	s += "?_pragma=busy_timeout(5000)"
	for _, o := range options {
		s += "&" + o
	}
	return s
}

// Close writes what is queued, synced, and closes the database. Later
// operations get a *runtime.Problem with ProblemUnavailable. The error tells
// of notes that could not be written.
func (l *Ledger) Close() error {
	l.closing.Do(func() {
		l.queue.close()
		var err error
		if l.writer != nil {
			err = l.writer.wait()
		}
		err = errors.Join(err, l.readers.Close())
		if l.writer != nil {
			err = errors.Join(err, l.writer.shut())
		}
		if l.lock != nil {
			err = errors.Join(err, l.lock.Close())
		}
		l.closeErr = err
	})
	return l.closeErr
}
