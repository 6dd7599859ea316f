// Goal: what is kept is given back as it was, to its owner alone, within the bound, by this process or the
// next; a follower of a log gets every event once. Method: a list in order of use beside the store; files
// that are cut, changed and left over; readers that come early, late and in the middle.
#include "api/answer_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "pagoda-answers-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::shared_ptr<const AnswerFiles> open() const {
    auto files = AnswerFiles::open(path);
    EXPECT_TRUE(files) << files.error().message();
    return *files;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".answer") all.push_back(entry.path());
    return all;
  }
  std::string path;
};

StoredAnswer answer(std::string text, std::string owner = "") {
  return {.owner = std::move(owner), .answer = std::move(text), .conversation = "asked\nso\0"};
}

// Against a list in order of use; the files hold what is listed, and nothing else.
TEST(AnswerStore, TheOneUnusedTheLongestLeavesAlsoWithFilesAndOverRestarts) {
  const Folder folder;
  for (const bool in_files : {false, true}) {
    const auto make = [&] { return std::make_unique<AnswerStore>(6000, in_files ? folder.open() : nullptr); };
    std::unique_ptr<AnswerStore> store = make();
    std::vector<std::pair<std::string, std::string>> order;  // id, text; used last: at the end
    for (std::uint64_t i = 0; i < 400; ++i) {
      const std::uint64_t draw = random_bits(7, i, in_files);
      if (draw % 3 == 0 && !order.empty()) {
        const auto used = order.begin() + static_cast<std::ptrdiff_t>((draw >> 8) % order.size());
        const auto found = store->find(used->first, "me");
        ASSERT_TRUE(found);
        EXPECT_EQ(found->answer, used->second);
        EXPECT_FALSE(store->find(used->first, "you"));
        EXPECT_FALSE(store->erase(used->first, "you"));
        std::rotate(used, used + 1, order.end());
      } else if (draw % 17 == 1 && !order.empty()) {
        ASSERT_TRUE(store->erase(order.front().first, "me"));
        order.erase(order.begin());
      } else {
        const std::string id = concat("resp_../\n", i);
        ASSERT_TRUE(store->add(id, answer(std::string((draw >> 8) % 700, static_cast<char>(i)), "me")));
        EXPECT_FALSE(store->add(id, answer("", "me")));
        order.emplace_back(id, std::string((draw >> 8) % 700, static_cast<char>(i)));
      }
      store->check_invariants();
      ASSERT_LE(store->bytes(), 6000u);
      std::size_t bytes = 0;
      for (const auto& [id, text] : order) bytes += answer(text, "me").bytes();
      while (bytes > 6000) {
        bytes -= answer(order.front().second, "me").bytes();
        order.erase(order.begin());
      }
      ASSERT_EQ(store->bytes(), bytes);
      if (!in_files || i % 80 != 79) continue;
      store->wait_until_written();
      ASSERT_EQ(folder.files().size(), order.size());
      store.reset();
      store = make();
      ASSERT_EQ(store->bytes(), bytes);
      for (const auto& [id, text] : order) {  // in order, so that it is known from here on
        const auto found = store->find(id, "me");
        ASSERT_TRUE(found);
        EXPECT_EQ(found->answer, text);
        EXPECT_EQ(found->conversation, answer("").conversation);
      }
    }
  }
}

TEST(AnswerStore, WhatRunsIsInMemoryAndStays) {
  const Folder folder;
  auto store = std::make_unique<AnswerStore>(4000, folder.open());
  ASSERT_TRUE(store->add("running", {.owner = "", .answer = "r", .conversation = "", .running = true}));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(store->add(std::to_string(i), answer(std::string(500, 'x'))));
  store->wait_until_written();
  EXPECT_TRUE(store->find("running", "")->running);
  EXPECT_FALSE(store->add("large", answer(std::string(5000, 'x'))));
  EXPECT_FALSE(store->add("running", answer("")));
  ASSERT_TRUE(store->finish("running", "done"));
  EXPECT_FALSE(store->finish("running", "twice"));
  ASSERT_TRUE(store->add("never ends", {.owner = "", .answer = "r", .conversation = "", .running = true}));
  store.reset();
  store = std::make_unique<AnswerStore>(4000, folder.open());
  EXPECT_EQ(store->find("running", "")->answer, "done");
  EXPECT_FALSE(store->find("never ends", ""));
}

TEST(AnswerFiles, DamagedOnesAndLeftoversAreRemovedAndStrangersLeftAlone) {
  const Folder folder;
  {
    AnswerStore store(100'000, folder.open());
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(store.add(std::to_string(i), answer(concat("text ", i), "me")));
  }
  const std::vector<fs::path> files = folder.files();
  ASSERT_EQ(files.size(), 40u);
  std::size_t damaged = 0;
  for (std::size_t i = 0; i < files.size(); i += 2, ++damaged) {
    std::fstream file(files[i], std::ios::in | std::ios::out | std::ios::binary);
    const auto size = fs::file_size(files[i]);
    if (i % 4 == 0) {
      file.close();
      fs::resize_file(files[i], size - 1 - i);
    } else {
      file.seekg(static_cast<std::streamoff>(size - 1 - i));
      const int before = file.get();
      file.seekp(static_cast<std::streamoff>(size - 1 - i));
      file.put(static_cast<char>(before ^ 1));
    }
  }
  fs::copy_file(files[1], folder.path + "/00000000000000000000000000000000.answer");  // under another's name
  std::ofstream(folder.path + "/half.answer.part") << "pagoda";
  std::ofstream(folder.path + "/notes.txt") << "mine";
  fs::create_directory(folder.path + "/folder.answer");
  AnswerStore store(100'000, folder.open());
  std::size_t whole = 0;
  for (int i = 0; i < 40; ++i)
    if (const auto found = store.find(std::to_string(i), "me")) {
      EXPECT_EQ(found->answer, concat("text ", i));
      ++whole;
    }
  EXPECT_EQ(whole, 40 - damaged);
  EXPECT_EQ(folder.files().size(), whole + 1);  // and the folder
  EXPECT_FALSE(fs::exists(folder.path + "/half.answer.part"));
  EXPECT_TRUE(fs::exists(folder.path + "/notes.txt"));
  // One that is damaged while the store runs is there no longer.
  for (const fs::path& path : folder.files())
    if (fs::is_regular_file(path)) fs::resize_file(path, 20);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(store.find(std::to_string(i), "me"));
  store.check_invariants();
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(AnswerFiles, OneProcessHasTheFolder) {
  const Folder folder;
  const auto first = folder.open();
  const auto second = AnswerFiles::open(folder.path);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("another server"), std::string::npos);
  EXPECT_FALSE(AnswerFiles::open(folder.path + "/lock"));
}

TEST(AnswerFiles, NoByteOfAFileIsTrusted) {
  const Folder folder;
  ASSERT_TRUE(folder.open()->write("id", answer("hello", "me")));
  std::ifstream file(folder.files().front(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_TRUE(parse_answer_file(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(parse_answer_file(std::string_view(bytes).substr(0, i)));
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    const auto parsed = parse_answer_file(changed);
    if (parsed) EXPECT_EQ(concat(parsed->id, parsed->owner, parsed->answer), "idmehello") << i;
  }
}

TEST(AnswerLog, EveryReaderGetsEveryEventOnceFromWhereItBegins) {
  auto log = std::make_shared<AnswerLog>(1000);
  std::string all, early, late;
  int rings = 0;
  const auto first = log->follow(0, [&] { ++rings; });
  for (int i = 0; i < 10; ++i) {
    log->append(concat("event ", i, "\n"));
    all += concat("event ", i, "\n");
    if (i % 3 == 0) EXPECT_TRUE(first->take(early, 5));
  }
  EXPECT_GE(rings, 10);
  EXPECT_EQ(log->bytes(), all.size() + 10 * sizeof(std::size_t));
  const auto second = log->follow(4, [] {});
  log->end();
  log->append("late\n");
  while (first->take(early, 5)) {
  }
  EXPECT_EQ(early, all);
  EXPECT_FALSE(second->take(late, 1000));
  EXPECT_EQ(late, all.substr(all.find("event 4")));
  std::string beyond;
  EXPECT_FALSE(log->follow(99, [] {})->take(beyond, 1000));
  EXPECT_EQ(beyond, "");
}

TEST(AnswerLog, WhatIsBeyondTheBoundIsNotKept) {
  auto log = std::make_shared<AnswerLog>(10);
  log->append("12345");
  log->append("123456");
  log->append("1");
  log->end();
  std::string out;
  EXPECT_FALSE(log->follow(0, [] {})->take(out, 100));
  EXPECT_EQ(out, "12345");
}

}  // namespace
}  // namespace pagoda
