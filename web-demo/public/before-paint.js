// Runs before the first paint, so that a dark page never flashes white. A file of its own, because the
// content security policy forbids inline scripts; the keys and their meaning are those of src/i18n/theme.ts
// and src/i18n/language.ts.
//
// And before any module: the AI SDK checks what it reads with zod, which would try as soon as it is loaded
// whether it may make code. The policy forbids that, and the browser would report it. A module could not be
// sure to come first; zod reads its settings here.
globalThis.__zod_globalConfig = { jitless: true };
(function () {
  var root = document.documentElement;
  var stored = function (key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  };
  var theme = stored('fermata.theme');
  var isDark = theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  root.dataset.theme = isDark ? 'dark' : 'light';
  var tags = [stored('fermata.language')].concat(navigator.languages).filter(Boolean);
  var tag = tags.find(function (tag) {
    return /^(zh|en)\b/i.test(tag);
  });
  root.lang = /^zh/i.test(tag || '') ? 'zh-CN' : 'en';
})();
