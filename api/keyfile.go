package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// minKeyLength is the least number of characters of a key that an operator
// chooses.
const minKeyLength = 32

// keyRecord is a key as it is kept: nothing in it opens anything.
type keyRecord struct {
	ID        string    `json:"id"`
	SHA256    string    `json:"sha256"` // hex, of the whole key
	Tenant    string    `json:"tenant"`
	Scopes    []string  `json:"scopes"`
	CreatedAt time.Time `json:"createdAt"`
}

// LoadAuth opens the keys kept in dir. fromEnv, where it is not empty, is the
// admin key of this start, and what dir holds is left alone. Otherwise the
// admin key is the one whose hash dir holds; where it holds none, one is made,
// its hash kept, and the key itself returned as shownOnce: it is nowhere else.
func LoadAuth(dir, fromEnv string) (auth *Auth, shownOnce string, err error) {
	if fromEnv != "" {
		if err := checkChosenKey(fromEnv); err != nil {
			return nil, "", err
		}
		return adminAuth("admin", sha256.Sum256([]byte(fromEnv))), "", nil
	}
	file := filepath.Join(dir, "admin.json")
	record, err := readKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		record, shownOnce, err = makeKey(file)
	}
	if err != nil {
		return nil, "", err
	}
	hash, err := hex.DecodeString(record.SHA256)
	if err != nil || len(hash) != sha256.Size {
		return nil, "", fmt.Errorf("%s holds no SHA-256; delete it to have a new admin key made", file)
	}
	return adminAuth("sbx_"+record.ID, [sha256.Size]byte(hash)), shownOnce, nil
}

func adminAuth(id string, hash [sha256.Size]byte) *Auth {
	return &Auth{keys: []storedKey{{hash: hash, who: Principal{KeyID: id, Tenant: defaultTenant, Scopes: []string{ScopeAdmin}}}}}
}

// checkChosenKey refuses a key that could be guessed, or not be sent.
func checkChosenKey(key string) error {
	if n := utf8.RuneCountInString(key); n < minKeyLength {
		return fmt.Errorf("the admin key (SANDBOXD_API_KEY) has %d characters and needs at least %d; openssl rand -hex 32 makes one", n, minKeyLength)
	}
	if strings.TrimSpace(key) != key || strings.ContainsFunc(key, unicode.IsControl) || !utf8.ValidString(key) {
		return errors.New("the admin key (SANDBOXD_API_KEY) begins or ends with a space, or holds a control character, and cannot be sent in a header; openssl rand -hex 32 makes one that can")
	}
	return nil
}

func readKey(file string) (keyRecord, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return keyRecord{}, err
	}
	var record keyRecord
	if err := json.Unmarshal(raw, &record); err != nil {
		return keyRecord{}, fmt.Errorf("%s cannot be read (%w); delete it to have a new admin key made", file, err)
	}
	return record, nil
}

// makeKey makes a key and keeps its hash; a file that is there stays as it is.
func makeKey(file string) (keyRecord, string, error) {
	id, err := randomText(10)
	if err != nil {
		return keyRecord{}, "", err
	}
	secret, err := randomText(43) // 62^43 > 2^256
	if err != nil {
		return keyRecord{}, "", err
	}
	key := "sbx_" + id + "_" + secret
	hash := sha256.Sum256([]byte(key))
	record := keyRecord{
		ID: id, SHA256: hex.EncodeToString(hash[:]), Tenant: defaultTenant,
		Scopes: []string{ScopeAdmin}, CreatedAt: time.Now().UTC(),
	}
	return record, key, writeKey(file, record)
}

// writeKey writes a whole file or none, for the service's eyes only.
func writeKey(file string, record keyRecord) error {
	raw, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(append(raw, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Link(temp.Name(), file) // fails where another start was first
	}
	return errors.Join(err, os.Remove(temp.Name()))
}

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func randomText(n int) (string, error) {
	var b strings.Builder
	for range n {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			return "", err
		}
		b.WriteByte(base62[i.Int64()])
	}
	return b.String(), nil
}
