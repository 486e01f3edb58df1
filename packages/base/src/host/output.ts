/** The real output of this process. */
import type { Writable } from 'node:stream'
import * as E from 'fp-ts/lib/Either.js'
import type { Output } from '../capabilities.js'
import type { OutputFailure } from '../failure.js'
import { visibleText } from '../visibleText.js'

const failureOf = (error: Error): OutputFailure => {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN'
  return {
    _tag: 'OutputFailure',
    code,
    reason: code === 'EPIPE' ? 'the reader of the output has closed it' : error.message,
  }
}

/**
 * Makes an output of a stream. An error of the stream fails only the text being written, and does
 * not end the process.
 *
 * Errors   `Left(OutputFailure)` if the stream does not accept the text.
 *
 * @internal
 */
export const streamOutput = (stream: Writable): Output => ({
  write: (text) => () =>
    new Promise((resolve) => {
      const ignore = (): void => undefined
      stream.on('error', ignore)
      stream.write(text, (error) => {
        setImmediate(() => stream.off('error', ignore)) // the stream emits the error once more after this
        resolve(error ? E.left(failureOf(error)) : E.right(undefined))
      })
    }),
})

/** The output of this process, which `console.log` uses too. */
export const liveOutput: Output = streamOutput(process.stdout)

/** Returns a function that writes text from outside: a terminal gets it with visible controls. */
const printer =
  (stream: NodeJS.WriteStream) =>
  (text: string): void => {
    stream.write(stream.isTTY ? visibleText(text) : text)
  }

/** Prints results to standard output. On a terminal, control characters of the text are visible. */
export const print = printer(process.stdout)

/** Prints messages to standard error. On a terminal, control characters of the text are visible. */
export const printError = printer(process.stderr)
