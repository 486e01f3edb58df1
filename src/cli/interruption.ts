/** Ctrl-C handling: the first press stops gracefully, the second exits at once. */

/** Returns a signal that aborts on Ctrl-C or SIGTERM. `release` removes the handlers. */
export const interruption = (text: string): { readonly signal: AbortSignal; readonly release: () => void } => {
  const abort = new AbortController()
  const onSignal = (): void => {
    if (abort.signal.aborted) process.exit(130)
    abort.abort()
    process.stderr.write(`${text}; press Ctrl-C again to stop at once\n`)
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: abort.signal,
    release: () => {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}
