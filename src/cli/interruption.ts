/** Ctrl-C: the first ends the work in an orderly way, the second the process. */

/** A signal that aborts with Ctrl-C or SIGTERM. `release` stops listening. */
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
