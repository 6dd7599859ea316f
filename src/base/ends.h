#pragma once
// The first and the last element of a list that may be empty: null then. For lists whose length is a
// client's, a file's or a model's choice; front() and back() stay where the lines beside them show that there
// is one.

namespace pagoda {

template <class List>
auto* first_of(List& list) {
  return list.empty() ? nullptr : &list.front();
}
template <class List>
auto* last_of(List& list) {
  return list.empty() ? nullptr : &list.back();
}

}  // namespace pagoda
