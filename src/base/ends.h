#pragma once
// The first and last element of a list, or null if it is empty. For lists whose length is determined by a
// client, a file or a model; plain front() and back() are used where the surrounding lines show that the list
// is not empty.

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
