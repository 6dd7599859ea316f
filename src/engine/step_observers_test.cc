#include "engine/step_observers.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

struct Noting final : StepObserver {
  Noting(std::string own, std::vector<std::string>& shared) : name(std::move(own)), notes(shared) {}
  void on_abort(RequestId id) override {
    notes.push_back(name + " abort " + std::to_string(static_cast<std::uint64_t>(id)));
  }
  std::string name;
  std::vector<std::string>& notes;
};

TEST(StepObservers, AreCalledInOrderWhileTheyAreInTheList) {
  std::vector<std::string> notes;
  Noting first("first", notes), second("second", notes);
  StepObservers observers;
  observers.add(first);
  observers.add(second);
  observers.notify(&StepObserver::on_abort, RequestId{7});
  EXPECT_EQ(notes, std::vector<std::string>({"first abort 7", "second abort 7"}));
  observers.remove(first);
  notes.clear();
  observers.notify(&StepObserver::on_abort, RequestId{8});
  EXPECT_EQ(notes, std::vector<std::string>({"second abort 8"}));
}

}  // namespace
}  // namespace pagoda
