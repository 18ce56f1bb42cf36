// Sets the theme before the first paint. A file of its own, not inline: the CSP allows 'self' only.
(function () {
  var stored = null;
  try {
    stored = window.localStorage.getItem('kvcm-theme');
  } catch {
    // Storage may be refused; the system's preference is used then.
  }
  var dark =
    stored === 'dark' ||
    (stored !== 'light' && window.matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
})();
