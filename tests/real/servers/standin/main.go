// Standin takes the place of EdgeCore on test hosts: a real executable with a version, data that may not suit it, and bad manners on demand.
//
// As a service it writes, in its state directory, one line per start to starts.log ("VERSION VARIANT PID TIME") and, atomically, a
// JSON file named running that says which process of which build runs. It then behaves as its variant says until SIGTERM.
// The state directory is, in this order: --state DIR, the environment's STANDIN_STATE, ROOT/var/lib/kubeedge for an executable at
// ROOT/usr/local/bin or ROOT/usr/bin, /var/lib/kubeedge.
//
// Its data are a file named schema (a number in decimal) or else the user_version of the SQLite file edgecore.db. Data of another
// schema than wantSchema (unless that is 0) end it with code 1; a migrating build first raises a lower schema to its own.
//
// A listening build listens on the TCP address in the state directory's file named listen, as EdgeCore does on its ports.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Set by the linker (-ldflags -X).
var (
	version    = "v0.0.0"
	variant    = "good" // good, crashing, hanging, lying, dying, migrating, listening, unpacking
	wantSchema = "0"
	claims     = "v0.0.0-lie" // what a lying build says while it runs
	lives      = "1s"         // how long a dying build runs
)

// Running is what the file named running says.
type Running struct {
	PID        int    `json:"pid"`
	Version    string `json:"version"`
	Variant    string `json:"variant"`
	Says       string `json:"says"`
	Executable string `json:"executable"`
}

func main() {
	state := stateDirectory()
	for _, argument := range os.Args[1:] {
		if argument == "--version" || argument == "--version=true" {
			fmt.Println("KubeEdge " + spoken(state))
			return
		}
	}
	if variant == "unpacking" {
		becomeCopy(state)
	}
	serve(state)
}

// becomeCopy runs on from a copy of itself below the state directory, as K3s does.
func becomeCopy(state string) {
	executable, err := os.Executable()
	must(err)
	copied := filepath.Join(state, "data", version, "bin", "k3s")
	if executable == copied {
		return
	}
	content, err := os.ReadFile(executable)
	must(err)
	must(os.MkdirAll(filepath.Dir(copied), 0o755))
	must(replace(copied, content))
	must(os.Chmod(copied, 0o755))
	must(syscall.Exec(copied, os.Args, os.Environ()))
}

func stateDirectory() string {
	for i, argument := range os.Args {
		if argument == "--state" && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
		if rest, found := strings.CutPrefix(argument, "--state="); found {
			return rest
		}
	}
	if state := os.Getenv("STANDIN_STATE"); state != "" {
		return state
	}
	root := "/"
	if executable, err := os.Executable(); err == nil {
		folder := filepath.Dir(executable)
		for _, place := range []string{"/usr/local/bin", "/usr/bin"} {
			if prefix, found := strings.CutSuffix(folder, place); found {
				root = prefix
				break
			}
		}
	}
	return filepath.Join("/", root, "var/lib/kubeedge")
}

// spoken is the version that this build answers: a lying one changes its mind once a process of it runs.
func spoken(state string) string {
	if variant != "lying" {
		return version
	}
	var now Running
	text, err := os.ReadFile(filepath.Join(state, "running"))
	if err != nil || json.Unmarshal(text, &now) != nil || now.Variant != variant || now.Version != version {
		return version
	}
	if syscall.Kill(now.PID, 0) != nil {
		return version
	}
	return claims
}

func serve(state string) {
	stopped := make(chan os.Signal, 1)
	if variant == "hanging" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	} else {
		signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	}
	must(os.MkdirAll(state, 0o755))
	must(recordStart(state))
	if variant == "crashing" {
		fail("panic: runtime error: invalid memory address or nil pointer dereference")
	}
	openDatabase(state)
	if variant == "listening" {
		address, err := os.ReadFile(filepath.Join(state, "listen"))
		must(err)
		port, err := net.Listen("tcp", strings.TrimSpace(string(address)))
		must(err)
		defer port.Close()
	}
	must(recordRunning(state))
	fmt.Fprintf(os.Stderr, "edgecore %s (%s) runs with pid %d\n", version, variant, os.Getpid())
	if variant == "hanging" {
		for {
			time.Sleep(time.Hour)
		}
	}
	must(notifyReady())
	var end <-chan time.Time
	if variant == "dying" {
		life, err := time.ParseDuration(lives)
		must(err)
		end = time.After(life)
	}
	select {
	case <-stopped:
		_ = os.Remove(filepath.Join(state, "running"))
	case <-end:
		fail("fatal error: out of memory")
	}
}

func recordStart(state string) error {
	log, err := os.OpenFile(filepath.Join(state, "starts.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = fmt.Fprintf(log, "%s %s %d %s\n", version, variant, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano))
	return errors.Join(err, log.Sync())
}

func recordRunning(state string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	says := version
	if variant == "lying" {
		says = claims
	}
	text, err := json.Marshal(Running{os.Getpid(), version, variant, says, executable})
	if err != nil {
		return err
	}
	return replace(filepath.Join(state, "running"), append(text, '\n'))
}

// replace writes a file so that a reader sees the old or the new content, never a part.
func replace(path string, content []byte) error {
	beside := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.WriteFile(beside, content, 0o644); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

func openDatabase(state string) {
	want, err := strconv.Atoi(wantSchema)
	must(err)
	found, save, err := schema(state)
	must(err)
	if want == 0 || save == nil || found == want {
		return
	}
	if variant == "migrating" && found < want {
		must(save(want))
		return
	}
	fail(fmt.Sprintf("cannot open database: schema %d", found))
}

// schema reads the data's schema and how to save another; no saver means that there are no data yet.
func schema(state string) (int, func(int) error, error) {
	plain := filepath.Join(state, "schema")
	text, err := os.ReadFile(plain)
	if err == nil {
		found, err := strconv.Atoi(strings.TrimSpace(string(text)))
		return found, func(n int) error { return replace(plain, []byte(strconv.Itoa(n)+"\n")) }, err
	}
	if !errors.Is(err, os.ErrNotExist) {
		return 0, nil, err
	}
	database := filepath.Join(state, "edgecore.db")
	file, err := os.Open(database)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer file.Close()
	var field [4]byte // user_version: big endian at offset 60 of SQLite's header
	if _, err := file.ReadAt(field[:], 60); err != nil {
		return 0, nil, err
	}
	return int(binary.BigEndian.Uint32(field[:])), func(n int) error { return setUserVersion(database, n) }, nil
}

func setUserVersion(database string, n int) error {
	file, err := os.OpenFile(database, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), 60)
	return errors.Join(err, file.Sync())
}

// notifyReady tells a service manager of Type=notify that the service is up.
func notifyReady() error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer socket.Close()
	_, err = socket.Write([]byte("READY=1"))
	return err
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
