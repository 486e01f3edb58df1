/** `tandem report`: writes the report of a run at any time. */
import { resolve } from 'node:path'
import { print } from '@tandem-rl/base/host'
import { filesBelow } from '@tandem-rl/host'
import { Command } from 'commander'
import { reportOfRun } from '../run/report/reportOfRun.js'
import { orFail } from './failure.js'

const report = async (folder: string, { out }: { readonly out?: string }): Promise<void> => {
  const target = out ?? `${folder}/report.html`
  const files = filesBelow(folder)
  await orFail(files.write(target, await orFail(reportOfRun(files, resolve(folder)))))
  print(`wrote ${target}\n`)
}

/** Makes the command. */
export const reportCommand = (): Command =>
  new Command('report')
    .argument('<folder>', 'run folder')
    .option('--out <file>', 'the page to write (default: report.html in the run folder)')
    .action(report)
