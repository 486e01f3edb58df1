// Applies the saved theme before the first paint. Without one, the system preference decides.
{
  let saved = null
  try {
    saved = localStorage.getItem('tandem-theme')
  } catch {
    // Storage is refused for files in some browsers; the system preference is used.
  }
  if (saved === 'light' || saved === 'dark') document.documentElement.dataset.theme = saved
}
