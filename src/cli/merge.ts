/** `tandem merge`: writes a model with its adapters merged. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { print } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { Command, Option } from 'commander'
import { modelFolders } from '../modules/pretrained/modelFolder.js'
import { loadPretrained } from '../modules/pretrained/pretrained.js'
import { type SaveOptions, saveModel } from '../modules/pretrained/saveModel.js'
import { CommandError, orFail } from './failure.js'
import {
  adapterOption,
  downloadLines,
  type EngineOptions,
  engineOptions,
  MODEL_HELP,
  modelName,
  startEngine,
} from './options.js'

interface MergeFlags extends EngineOptions {
  readonly adapter?: string
  readonly dtype: NonNullable<SaveOptions['float']>
}

const merge = async (given: string, out: string, flags: MergeFlags): Promise<void> => {
  if (existsSync(out)) throw new CommandError(`${out} exists: name a new folder`)
  const name = modelName(given, flags.adapter)
  const { adapters } = await orFail(modelFolders(name, { onProgress: downloadLines() }))
  if (adapters.length === 0) throw new CommandError(`${given} has no adapter to merge; name one with --adapter`)
  await startEngine(flags)
  const model = await orFail(loadPretrained(name))
  await orFail(saveModel(resolve(out), model, { float: flags.dtype, files: liveFiles }))
  print(`merged ${adapters.join(', ')} into ${resolve(out)}\n`)
}

export const mergeCommand = (): Command => {
  const command = new Command('merge')
    .argument('<model>', `an adapter, a run of one, or a model for --adapter: ${MODEL_HELP}`)
    .argument('<out>', 'new model folder for Transformers')
    .addOption(adapterOption('<model>'))
    .addOption(
      new Option('--dtype <format>', 'number format of the weights').choices(['F32', 'BF16', 'F16']).default('F32'),
    )
  for (const option of engineOptions()) command.addOption(option)
  return command.action(merge)
}
