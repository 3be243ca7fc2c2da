package shell

import "strings"

// clients are the network clients whose targets are read off, by program name.
var clients = map[string]func(args []word) string{
	"curl":   curlTarget,
	"wget":   wgetTarget,
	"git":    gitTarget,
	"ssh":    sshTarget,
	"scp":    copyTarget("BCciFJlDoPSX"),
	"sftp":   sftpTarget,
	"rsync":  copyTarget("efBTM@"),
	"nc":     netcatTarget,
	"ncat":   netcatTarget,
	"netcat": netcatTarget,
}

// remoteOf returns the remote host that one simple command plainly names.
func remoteOf(command []word) string {
	if len(command) == 0 {
		return ""
	}
	client, ok := clients[command[0].name()]
	if !ok {
		return ""
	}
	return client(command[1:])
}

// curlFlags are long options of curl that take no value. After any other the
// next word is passed over: a target missed is harmless, a value taken for a
// target is not.
var curlFlags = flagSet(`anyauth append basic ca-native compressed compressed-ssh create-dirs crlf digest
	disable disable-eprt disable-epsv fail fail-early fail-with-body false-start form-escape ftp-create-dirs
	get globoff head http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 include insecure ipv4 ipv6
	junk-session-cookies list-only location location-trusted negotiate netrc next no-buffer no-clobber
	no-keepalive no-progress-meter no-sessionid ntlm parallel path-as-is post301 post302 post303 progress-bar
	raw remote-header-name remote-name remote-name-all remove-on-error retry-all-errors retry-connrefused
	show-error silent ssl ssl-reqd styled-output tcp-fastopen tcp-nodelay tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3
	tr-encoding trace-time use-ascii verbose xattr`)

// curlDetours change where a request goes, so that its URL no longer tells.
var curlDetours = flagSet("unix-socket abstract-unix-socket resolve connect-to proxy preproxy socks4 socks4a socks5 socks5-hostname config variable expand-url")

func curlTarget(args []word) string {
	const valued = "AbBcCdDeEFHhKmoPQrtTuUwxXyYzZ"
	var targets []word
	for i := 0; i < len(args); i++ {
		text := args[i].text
		long, isLong := strings.CutPrefix(text, "--")
		long, inline, hasInline := strings.Cut(long, "=")
		switch {
		case isLong && curlDetours[long], !isLong && strings.HasPrefix(text, "-") && strings.ContainsAny(text, "xK"):
			return ""
		case isLong && long == "url" && hasInline:
			targets = append(targets, word{inline, args[i].whole})
		case isLong && long == "url" && i+1 < len(args):
			i++
			targets = append(targets, args[i])
		case isLong:
			if !hasInline && !curlFlags[long] && !strings.HasPrefix(long, "no-") {
				i++
			}
		case len(text) > 1 && text[0] == '-':
			if takesNext(text, valued) {
				i++
			}
		default:
			targets = append(targets, args[i])
		}
	}
	return firstRemote(targets, urlOrHost)
}

// wgetFlags are long options of wget that take no value where written without
// an equals sign.
var wgetFlags = flagSet(`adjust-extension background continue content-disposition convert-links debug delete-after
	force-directories force-html https-only inet4-only inet6-only mirror no-cache no-check-certificate no-clobber
	no-cookies no-directories no-dns-cache no-glob no-host-directories no-parent no-proxy no-verbose page-requisites
	protocol-directories quiet recursive relative retry-connrefused server-response show-progress span-hosts spider
	timestamping trust-server-names unlink verbose xattr`)

func wgetTarget(args []word) string {
	const valued = "oaeiBtOTwQPUlARDIX"
	var targets []word
	for i := 0; i < len(args); i++ {
		text := args[i].text
		long, isLong := strings.CutPrefix(text, "--")
		switch {
		case isLong && strings.HasPrefix(long, "execute"), text == "-e":
			return "" // may set a proxy
		case isLong:
			if !strings.Contains(long, "=") && !wgetFlags[long] {
				i++
			}
		case len(text) > 1 && text[0] == '-':
			if takesNext(text, valued) {
				i++
			}
		default:
			targets = append(targets, args[i])
		}
	}
	return firstRemote(targets, urlOrHost)
}

// gitRemoteCommands talk to the repository that they name first.
var gitRemoteCommands = map[string]string{ // command: options with a value
	"clone": "bocuj", "fetch": "jo", "pull": "jorsX", "push": "o", "ls-remote": "o",
}

func gitTarget(args []word) string {
	rest, _ := skipOptions(args, "Cc")
	if len(rest) == 0 {
		return ""
	}
	valued, ok := gitRemoteCommands[rest[0].text]
	if !ok {
		return ""
	}
	var targets []word
	for i := 1; i < len(rest); i++ {
		text := rest[i].text
		switch {
		case takesNext(text, valued):
			i++
		case len(text) > 1 && text[0] == '-':
			if gitLongValued[text] {
				i++
			}
		default:
			targets = append(targets, rest[i])
		}
	}
	if len(targets) == 0 {
		return ""
	}
	return firstRemote(targets[:1], urlOrCopy)
}

// gitLongValued take the next word along.
var gitLongValued = map[string]bool{
	"--branch": true, "--depth": true, "--origin": true, "--reference": true, "--template": true, "--config": true,
	"--shallow-since": true, "--shallow-exclude": true, "--filter": true, "--jobs": true, "--upload-pack": true,
	"--separate-git-dir": true, "--server-option": true, "--push-option": true, "--receive-pack": true, "--repo": true,
}

const sshValued = "BbcDEeFIiJLlmOopPQRSWw"

func sshTarget(args []word) string {
	rest, options := skipOptions(args, sshValued)
	for _, o := range options {
		if strings.HasPrefix(o.text, "-F") || strings.HasPrefix(o.text, "-o") {
			return "" // HostName and ProxyCommand may lead elsewhere
		}
	}
	if len(rest) == 0 || !rest[0].whole {
		return ""
	}
	if host, scheme := hostOfURL(rest[0]); scheme == "ssh" {
		return remoteHost(host)
	}
	_, host, found := strings.Cut(rest[0].text, "@")
	if !found {
		host = rest[0].text
	}
	return remoteHost(strings.Trim(host, "[]"))
}

func sftpTarget(args []word) string {
	rest, _ := skipOptions(args, "BbcDFiJloPRSsX")
	if len(rest) == 0 || !rest[0].whole {
		return ""
	}
	if host := urlOrCopy(rest[0]); host != "" {
		return host
	}
	if strings.ContainsAny(rest[0].text, ":/") {
		return ""
	}
	return remoteHost(hostOnly(rest[0].text))
}

// copyTarget reads programs whose operands are files or host:file.
func copyTarget(valued string) func(args []word) string {
	return func(args []word) string {
		var operands []word
		for i := 0; i < len(args); i++ {
			text := args[i].text
			switch {
			case takesNext(text, valued):
				i++
			case len(text) > 1 && text[0] == '-':
			default:
				operands = append(operands, args[i])
			}
		}
		return firstRemote(operands, urlOrCopy)
	}
}

func netcatTarget(args []word) string {
	rest, options := skipOptions(args, "IiMmOPpqsTVWwXx")
	for _, o := range options {
		if strings.HasPrefix(o.text, "-") && strings.ContainsAny(strings.TrimLeft(o.text, "-"), "lUx") {
			return "" // listens, or goes by a socket file or a proxy
		}
	}
	if len(rest) == 0 || !rest[0].whole {
		return ""
	}
	return remoteHost(strings.Trim(rest[0].text, "[]"))
}

// urlOrHost reads "https://host/…" and curl's bare "host/…".
func urlOrHost(w word) string {
	host, scheme := hostOfURL(w)
	switch {
	case scheme == "file":
		return ""
	case scheme != "":
		return remoteHost(host)
	}
	end := strings.IndexAny(w.text, "/?#")
	if end < 0 {
		if !w.whole {
			return ""
		}
		end = len(w.text)
	}
	return remoteHost(hostOnly(w.text[:end]))
}

// urlOrCopy reads "scheme://host/…" and the "[user@]host:path" of scp. A colon
// after a slash is part of a file's name.
func urlOrCopy(w word) string {
	host, scheme := hostOfURL(w)
	switch {
	case scheme == "file":
		return ""
	case scheme != "":
		return remoteHost(host)
	}
	at := strings.IndexByte(w.text, ':')
	if at <= 0 || strings.Contains(w.text[:at], "/") {
		return ""
	}
	if bracket := strings.IndexByte(w.text, '['); bracket >= 0 && bracket < at {
		return remoteHost(hostOnly(w.text[bracket:]))
	}
	return remoteHost(hostOnly(w.text[:at]))
}

func firstRemote(words []word, hostOf func(word) string) string {
	for _, w := range words {
		if host := hostOf(w); host != "" {
			return host
		}
	}
	return ""
}

func flagSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}
