"""Written by scripts/standard_names.py."""

# ruff: noqa: E501

from __future__ import annotations

__all__ = ["TABLE"]

TABLE = """\
any any any_cast make_any
array array to_array
atomic atomic atomic_flag atomic_ref
bitset bitset
compare partial_ordering strong_ordering weak_ordering
complex complex complex_literals
condition_variable condition_variable condition_variable_any
cstddef byte
deque deque
forward_list forward_list
fstream basic_filebuf basic_fstream basic_ifstream basic_ofstream fstream ifstream ofstream
functional bind bind_front function hash invoke mem_fn not_fn reference_wrapper unwrap_ref_decay unwrap_ref_decay_t unwrap_reference unwrap_reference_t
future async future packaged_task promise
iostream cerr cin clog cout wcin wclog wcout
istream istream
iterator advance back_inserter begin distance end front_inserter inserter istream_iterator istreambuf_iterator iterator_traits move_iterator next ostream_iterator ostreambuf_iterator prev reverse_iterator
list list
map map multimap
memory allocate_shared allocator allocator_traits make_shared make_unique shared_ptr unique_ptr weak_ptr
memory_resource pmr
mutex lock lock_guard mutex once_flag recursive_mutex recursive_timed_mutex scoped_lock timed_mutex try_lock unique_lock
optional make_optional optional
ostream endl ends flush ostream wostream
queue priority_queue queue
set multiset set
shared_mutex shared_lock shared_mutex shared_timed_mutex
source_location source_location
sstream basic_istringstream basic_ostringstream basic_stringbuf basic_stringstream istringstream ostringstream stringstream
stack stack
string basic_string string u16string u32string u8string wstring
string_view basic_string_view string_view
thread this_thread thread
tuple apply forward_as_tuple make_from_tuple make_tuple tie tuple tuple_cat tuple_element tuple_element_t tuple_size tuple_size_v
type_traits conjunction conjunction_v disjunction disjunction_v enable_if enable_if_t invoke_result invoke_result_t negation negation_v remove_cvref remove_cvref_t type_identity type_identity_t void_t
unordered_map unordered_map unordered_multimap
unordered_set unordered_multiset unordered_set
utility declval forward make_pair move pair
variant variant visit
vector vector
"""
