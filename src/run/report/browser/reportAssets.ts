/**
 * The assets of the report in a browser, in place of `../reportAssets.ts`: they are served in the
 * folder `report/` beside the page or worker.
 */
import { errorMessage, type FileFailure, fileFailure } from '@tandem-rl/base'
import { browser } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type * as node from '../reportAssets.js'

const served = (name: string): TE.TaskEither<FileFailure, string> =>
  TE.tryCatch(
    async () => {
      const answer = await fetch(new URL(`report/${name}`, browser.location.href))
      if (!answer.ok) throw new Error(`the server answered with status ${answer.status}`)
      return answer.text()
    },
    (error) => fileFailure('read', `report/${name}`, { code: 'UNKNOWN', reason: errorMessage(error) }),
  )

export const readReportStyle: typeof node.readReportStyle = () => served('page.css')

export const readReportAssets: typeof node.readReportAssets = () =>
  pipe(
    TE.Do,
    TE.bind('chartScript', () => served('uPlot.iife.min.js')),
    TE.bind('chartStyle', () => served('uPlot.min.css')),
    TE.bind('script', () => served('page.js')),
    TE.bind('style', () => served('page.css')),
  )
