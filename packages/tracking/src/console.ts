/** Prints events as lines of text. */
import { checkOptions, type Output, visibleLine, visibleText } from '@tandem-rl/base'
import { liveOutput } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { CONSOLE_SINK_OPTIONS } from './optionKinds.js'
import { nothingToClose, type Sink, sinkFailure, type TrackedEvent } from './sink.js'

export interface ConsoleOptions {
  /** Default: standard output. */
  readonly output?: Output
  /** Scalars to print, in this order. Default: all. */
  readonly names?: readonly string[]
}

/** Formats a number with at most four significant digits. */
const shortNumber = (value: number): string => String(Number(value.toPrecision(4)))

const indented = (text: string): string => visibleText(text).replace(/^/gm, '    ')

/** Returns the lines of an event. */
const linesOf = (event: TrackedEvent, names: readonly string[] | undefined): readonly string[] => {
  switch (event.type) {
    case 'start':
      return [`run ${visibleLine(event.run)} from step ${event.from}`]
    case 'scalars': {
      const shown = (names ?? Object.keys(event.values)).flatMap((name) => {
        const value = event.values[name]
        return value === undefined ? [] : [`${visibleLine(name)} ${shortNumber(value)}`]
      })
      const phases = Object.entries(event.seconds).map(
        ([name, value]) => `${visibleLine(name)} ${shortNumber(value)} s`,
      )
      return shown.length === 0 ? [] : [[`step ${event.step}`, ...shown, ...phases].join('  ')]
    }
    case 'samples':
      return event.samples.flatMap(({ name, text }) => [
        `sample ${visibleLine(name)} of step ${event.step}:`,
        indented(text),
      ])
    case 'saved':
      return [`saved ${visibleLine(event.what)} ${visibleLine(event.path)}`]
    case 'alarm':
    case 'failure':
      return [`${event.type} ${visibleLine(event.name)} in step ${event.step}: ${visibleLine(event.text)}`]
    case 'end':
      return [`${event.status} after step ${event.step}`]
  }
}

/**
 * Makes a sink that prints events as lines: scalars with four digits, then the seconds of phases,
 * and indented samples. Control characters of texts are visible.
 *
 * Errors   `Left(SinkFailure)` with `never` and the OutputFailure if the output is closed. Throws
 *          RangeError for unknown options.
 * Effects  those of the output.
 *
 * @example
 * consoleSink({ names: ['train/loss'] }).name // 'console'
 */
export const consoleSink = (options: ConsoleOptions = {}): Sink => {
  checkOptions('consoleSink', options, CONSOLE_SINK_OPTIONS)
  const { output = liveOutput, names } = options
  return {
    name: 'console',
    write: (events) => {
      const lines = events.flatMap((event) => linesOf(event, names))
      if (lines.length === 0) return TE.right(undefined)
      return pipe(
        output.write(lines.map((line) => `${line}\n`).join('')),
        TE.mapLeft((cause) => sinkFailure('console', 'never', cause)),
      )
    },
    close: nothingToClose,
  }
}
