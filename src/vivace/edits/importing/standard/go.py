"""Written by scripts/standard_names.py."""

# ruff: noqa: E501

from __future__ import annotations

__all__ = ["TABLE"]

TABLE = """\
* ComplexType FloatType IntegerType Type Type1 any append bool byte cap clear close comparable complex complex128 complex64 copy delete error false float32 float64 imag int int16 int32 int64 int8 len make max min new nil panic print println real recover rune string true uint uint16 uint32 uint64 uint8 uintptr
archive/tar
archive/zip
bufio
bytes
cmp
compress/bzip2
compress/flate
compress/gzip
compress/lzw
compress/zlib
container/heap
container/list
container/ring
context
crypto
crypto/aes
crypto/cipher
crypto/des
crypto/dsa
crypto/ecdsa
crypto/ed25519
crypto/elliptic
crypto/hmac
crypto/md5
crypto/rand Int Prime Read Reader
crypto/rc4
crypto/rsa
crypto/sha1
crypto/sha256
crypto/sha512
crypto/subtle
crypto/tls
crypto/x509
crypto/x509/pkix
database/sql
database/sql/driver
debug/buildinfo
debug/dwarf
debug/elf
debug/gosym
debug/macho
debug/pe
debug/plan9obj
embed
encoding
encoding/ascii85
encoding/asn1
encoding/base32
encoding/base64
encoding/binary
encoding/csv
encoding/gob
encoding/hex
encoding/json
encoding/pem
encoding/xml
errors
expvar
flag
fmt
go/ast
go/build
go/build/constraint
go/constant
go/doc
go/doc/comment
go/format
go/importer
go/parser
go/printer
go/scanner Error ErrorHandler ErrorList Mode PrintError ScanComments Scanner
go/token
go/types
hash
hash/adler32
hash/crc32
hash/crc64
hash/fnv
hash/maphash
html
html/template CSS ErrAmbigContext ErrBadHTML ErrBranchEnd ErrEndContext ErrNoSuchTemplate ErrOutputContext ErrPartialCharset ErrPartialEscape ErrPredefinedEscaper ErrRangeLoopReentry ErrSlashAmbig Error ErrorCode FuncMap HTML HTMLAttr HTMLEscape HTMLEscapeString HTMLEscaper IsTrue JS JSEscape JSEscapeString JSEscaper JSStr Must New OK ParseFS ParseFiles ParseGlob Srcset Template URL URLQueryEscaper
image
image/color
image/color/palette
image/draw
image/gif
image/jpeg
image/png
index/suffixarray
io
io/fs
io/ioutil
iter
log
log/slog
log/syslog
maps
math
math/big
math/bits
math/cmplx
math/rand ExpFloat64 Float32 Float64 Int Int31 Int31n Int63 Int63n Intn New NewSource NewZipf NormFloat64 Perm Rand Read Seed Shuffle Source Source64 Uint32 Uint64 Zipf
mime
mime/multipart
mime/quotedprintable
net
net/http
net/http/cgi
net/http/cookiejar
net/http/fcgi
net/http/httptest
net/http/httptrace
net/http/httputil
net/http/pprof Cmdline Handler Index Profile Symbol Trace
net/mail
net/netip
net/rpc
net/rpc/jsonrpc
net/smtp
net/textproto
net/url
os
os/exec
os/signal
os/user
path
path/filepath
plugin
reflect
regexp
regexp/syntax
runtime
runtime/cgo
runtime/debug
runtime/metrics
runtime/pprof Do ForLabels Label LabelSet Labels Lookup NewProfile Profile Profiles SetGoroutineLabels StartCPUProfile StopCPUProfile WithLabels WriteHeapProfile
runtime/race
runtime/trace
slices
sort
strconv
strings
sync
sync/atomic
syscall
testing
testing/fstest
testing/iotest
testing/quick
text/scanner Char Comment EOF Float GoTokens GoWhitespace Ident Int Position RawString ScanChars ScanComments ScanFloats ScanIdents ScanInts ScanRawStrings ScanStrings Scanner SkipComments String TokenString
text/tabwriter
text/template ExecError FuncMap HTMLEscape HTMLEscapeString HTMLEscaper IsTrue JSEscape JSEscapeString JSEscaper Must New ParseFS ParseFiles ParseGlob Template URLQueryEscaper
text/template/parse
time
time/tzdata
unicode
unicode/utf16
unicode/utf8
unsafe
"""
