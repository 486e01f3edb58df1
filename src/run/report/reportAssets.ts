/**
 * The assets of the report. Bundles for browsers have `browser/reportAssets.ts` in its place.
 */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { FileFailure, Files } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Scripts and styles of the report. */
export interface ReportAssets {
  readonly chartScript: string
  readonly chartStyle: string
  readonly script: string
  readonly style: string
}

const own = (name: string): string => fileURLToPath(new URL(`../../../assets/report/${name}`, import.meta.url))

/** Reads the style sheet of reports, for pages of other packages. */
export const readReportStyle = (files: Pick<Files, 'readText'>): TE.TaskEither<FileFailure, string> =>
  files.readText(own('page.css'))

/** Reads the assets from this package and from uplot. */
export const readReportAssets = (files: Files): TE.TaskEither<FileFailure, ReportAssets> => {
  const { resolve } = createRequire(import.meta.url)
  return pipe(
    TE.Do,
    TE.bind('chartScript', () => files.readText(resolve('uplot/dist/uPlot.iife.min.js'))),
    TE.bind('chartStyle', () => files.readText(resolve('uplot/dist/uPlot.min.css'))),
    TE.bind('script', () => files.readText(own('page.js'))),
    TE.bind('style', () => readReportStyle(files)),
  )
}
