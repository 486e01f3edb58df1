/** The real output of this process. */
import type { Writable } from 'node:stream'
import * as E from 'fp-ts/lib/Either.js'
import type { Output } from '../core/capabilities.js'
import type { OutputFailure } from '../core/failure.js'

const failureOf = (error: Error): OutputFailure => {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN'
  return { _tag: 'OutputFailure', code, reason: code === 'EPIPE' ? 'nobody reads the output any more' : error.message }
}

/**
 * Writes text to a stream. An error of the stream while text is written is a failure of that text alone, and does not end the process.
 *
 * Errors   `Left(OutputFailure)` where the stream does not take the text.
 *
 * @internal
 */
export const streamOutput = (stream: Writable): Output => ({
  write: (text) => () =>
    new Promise((resolve) => {
      const ignore = (): void => undefined
      stream.on('error', ignore)
      stream.write(text, (error) => {
        setImmediate(() => stream.off('error', ignore)) // the stream says it again after this
        resolve(error ? E.left(failureOf(error)) : E.right(undefined))
      })
    }),
})

/** What `console.log` writes to. */
export const liveOutput: Output = streamOutput(process.stdout)
