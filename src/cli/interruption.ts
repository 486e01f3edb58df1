/** Ctrl-C handling: the first press stops gracefully, the second exits at once. */
import { printError } from '@tandem-rl/base/host'

export type EndingSignal = 'SIGINT' | 'SIGTERM'

/** Exit codes of interrupted work, as shells report signals: 128 plus the signal's number. */
export const SIGNAL_CODES: Readonly<Record<EndingSignal, number>> = { SIGINT: 130, SIGTERM: 143 }

/**
 * Returns a signal that aborts on Ctrl-C or SIGTERM. `release` removes the handlers.
 *
 * Effects  after the signal, the command ends with its code from `SIGNAL_CODES`, unless an error
 *          sets another one.
 */
export const interruption = (text: string): { readonly signal: AbortSignal; readonly release: () => void } => {
  const abort = new AbortController()
  const onSignal = (name: EndingSignal): void => {
    if (abort.signal.aborted) process.exit(SIGNAL_CODES[name])
    process.exitCode = SIGNAL_CODES[name]
    abort.abort()
    printError(`${text}; press Ctrl-C again to stop at once\n`)
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

/**
 * Runs work that has nothing to save, which Ctrl-C and SIGTERM interrupt.
 *
 * Effects  exits after interrupted work, even if some of it still runs in the background.
 */
export const interruptible = async (text: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> => {
  const { signal, release } = interruption(text)
  try {
    await work(signal)
  } finally {
    release()
  }
  if (signal.aborted) process.exit()
}
