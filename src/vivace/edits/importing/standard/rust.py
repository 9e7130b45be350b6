"""Written by scripts/standard_names.py."""

# ruff: noqa: E501

from __future__ import annotations

__all__ = ["TABLE"]

TABLE = """\
* AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator Hash Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Self Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec align_of align_of_val alloc assert assert_eq assert_ne bool cfg cfg_select char column compile_error concat concat_bytes const_format_args core crate dbg debug_assert debug_assert_eq debug_assert_ne drop env eprint eprintln f32 f64 file format format_args i128 i16 i32 i64 i8 include include_bytes include_str is_x86_feature_detected isize line log_syntax matches module_path option_env panic print println self size_of size_of_val std str stringify super thread_local todo trace_macros try u128 u16 u32 u64 u8 unimplemented unreachable usize vec write writeln
std::alloc AllocError Allocator Global GlobalAlloc Layout LayoutErr LayoutError System
std::any Any TypeId
std::array TryFromSliceError
std::ascii AsciiExt
std::async_iter AsyncIterator FromIter IntoAsyncIterator
std::backtrace Backtrace BacktraceFrame BacktraceStatus
std::borrow Borrow BorrowMut Cow ToOwned
std::boxed Box ThinBox
std::bstr ByteStr ByteString
std::cell BorrowError BorrowMutError Cell CloneFromCell LazyCell OnceCell Ref RefCell RefMut SyncUnsafeCell UnsafeCell
std::char CharTryFromError DecodeUtf16 DecodeUtf16Error ParseCharError ToLowercase ToUppercase TryFromCharError
std::clone Clone CloneToUninit TrivialClone UseCloned
std::cmp Eq Ord PartialEq PartialOrd Reverse
std::collections BTreeMap BTreeSet BinaryHeap HashMap HashSet LinkedList TryReserveError TryReserveErrorKind VecDeque
std::collections::binary_heap DrainSorted IntoIterSorted
std::collections::btree_map RangeMut
std::convert AsMut AsRef FloatToInt From Infallible Into TryFrom TryInto
std::default Default
std::env Args ArgsOs JoinPathsError SplitPaths VarError Vars VarsOs
std::error Report Request
std::ffi CStr CString FromBytesUntilNulError FromBytesWithNulError FromVecWithNulError IntoStringError NulError OsStr OsString VaArgSafe VaList c_char c_double c_float c_int c_long c_longlong c_ptrdiff_t c_schar c_short c_size_t c_ssize_t c_uchar c_uint c_ulong c_ulonglong c_ushort c_void
std::fmt Arguments Binary Debug DebugAsHex DebugList DebugMap DebugSet DebugStruct DebugTuple Formatter FormattingOptions LowerExp LowerHex Octal Sign UpperExp UpperHex
std::from
std::fs Dir DirBuilder DirEntry File FileTimes FileType Metadata OpenOptions Permissions ReadDir
std::future AsyncDrop Future IntoFuture Pending PollFn Ready
std::hash BuildHasher BuildHasherDefault Hash Hasher SipHasher
std::hint Locality
std::io BorrowedBuf BorrowedCursor BufRead BufReader BufWriter ErrorKind IntoInnerError IoSlice IoSliceMut IsTerminal LineWriter PipeReader PipeWriter RawOsError Read Seek SeekFrom Sink Stderr StderrLock Stdin StdinLock Stdout StdoutLock WriterPanicked
std::iter ArrayChunks ByRefSized Cloned Copied Cycle DoubleEndedIterator Enumerate ExactSizeIterator Extend Filter FilterMap FlatMap Flatten FromCoroutine FromIterator Fuse FusedIterator Inspect Intersperse IntersperseWith IntoIterator Iterator Map MapWhile MapWindows OnceWith Peekable Product RepeatN RepeatWith Rev Scan Skip SkipWhile Step StepBy Successors Sum TakeWhile TrustedLen TrustedStep Zip
std::marker ConstParamTy_ Copy Destruct DiscriminantKind Freeze MetaSized PhantomContravariant PhantomContravariantLifetime PhantomCovariant PhantomCovariantLifetime PhantomData PhantomInvariant PhantomInvariantLifetime PhantomPinned PointeeSized Send Sized StructuralPartialEq Sync Unpin UnsafeUnpin Unsize Variance
std::mem Assume Discriminant DropGuard ManuallyDrop MaybeDangling MaybeUninit TransmuteFrom
std::mem::type_info Abi Array Bool Const DynTrait DynTraitPredicate Enum Field Float Generic GenericType Int Lifetime Reference Slice Str Struct Trait TraitImpl Type TypeKind Variant
std::net AddrParseError Incoming IntoIncoming IpAddr Ipv4Addr Ipv6Addr Ipv6MulticastScope Shutdown SocketAddr SocketAddrV4 SocketAddrV6 TcpListener TcpStream ToSocketAddrs UdpSocket
std::num FpCategory IntErrorKind NonZero NonZeroI128 NonZeroI16 NonZeroI32 NonZeroI64 NonZeroI8 NonZeroIsize NonZeroU128 NonZeroU16 NonZeroU32 NonZeroU64 NonZeroU8 NonZeroUsize ParseFloatError ParseIntError Saturating TryFromIntError Wrapping ZeroablePrimitive
std::ops Add AddAssign AsyncFn AsyncFnMut AsyncFnOnce BitAnd BitAndAssign BitOr BitOrAssign BitXor BitXorAssign Bound CoerceShared CoerceUnsized ControlFlow Coroutine CoroutineState Deref DerefMut DerefPure DispatchFromDyn Div DivAssign Drop Fn FnMut FnOnce FromResidual Index IndexMut IntoBounds Mul MulAssign Neg Not OneSidedRange OneSidedRangeBound RangeBounds RangeFull RangeTo Reborrow Rem RemAssign Residual Shl ShlAssign Shr ShrAssign Sub SubAssign Try Yeet
std::option Option OptionFlatten
std::panic AssertUnwindSafe BacktraceStyle Location PanicHookInfo PanicInfo RefUnwindSafe UnwindSafe
std::pat
std::path Ancestors Component Components NormalizeError Path PathBuf Prefix PrefixComponent StripPrefixError
std::pin Pin PinCoerceUnsized UnsafePinned
std::primitive
std::process Child ChildStderr ChildStdin ChildStdout Command CommandArgs CommandEnvs ExitCode ExitStatus ExitStatusError Output Stdio Termination
std::ptr DynMetadata NonNull Pointee
std::random DefaultRandomSource Distribution RandomSource
std::range RangeFromIter RangeInclusiveIter RangeIter
std::rc Rc UniqueRc
std::result
std::slice ArrayWindows ChunkBy ChunkByMut Chunks ChunksExact ChunksExactMut ChunksMut Concat EscapeAscii GetDisjointMutError Join RChunks RChunksExact RChunksExactMut RChunksMut RSplitMut RSplitNMut SliceIndex SplitInclusiveMut SplitMut SplitNMut Windows
std::str CharIndices Chars EncodeUtf16 FromStr LinesAny MatchIndices Matches ParseBoolError RMatchIndices RMatches RSplitTerminator SplitAsciiWhitespace SplitTerminator SplitWhitespace Utf8Chunk Utf8Chunks Utf8Error
std::str::pattern CharArrayRefSearcher CharArraySearcher CharPredicateSearcher CharSearcher CharSliceSearcher DoubleEndedSearcher Pattern ReverseSearcher SearchStep Searcher StrSearcher Utf8Pattern
std::string FromUtf16Error FromUtf8Error IntoChars ParseError String ToString
std::sync Arc Barrier BarrierWaitResult Condvar Exclusive LazyLock LockResult MappedMutexGuard MappedRwLockReadGuard MappedRwLockWriteGuard Mutex MutexGuard OnceLock OnceState PoisonError ReentrantLock ReentrantLockGuard RwLock RwLockReadGuard RwLockWriteGuard TryLockResult UniqueArc WaitTimeoutResult
std::sync::atomic Atomic AtomicBool AtomicI16 AtomicI32 AtomicI64 AtomicI8 AtomicIsize AtomicPrimitive AtomicPtr AtomicU16 AtomicU32 AtomicU64 AtomicU8 AtomicUsize
std::sync::mpmc SendTimeoutError
std::sync::mpsc RecvError SendError SyncSender TrySendError
std::sync::nonpoison WouldBlock
std::task Context ContextBuilder LocalWake LocalWaker Poll RawWaker RawWakerVTable Wake Waker
std::thread AccessError Builder JoinHandle LocalKey Scope ScopedJoinHandle Thread ThreadId
std::time Duration Instant SystemTime SystemTimeError TryFromFloatSecsError
std::unsafe_binder
std::vec Vec
"""
