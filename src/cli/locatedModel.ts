/** Finds the model of a command. */
import { resolve } from 'node:path'
import { printError } from '@tandem-rl/base/host'
import { modelFolders } from '../modules/pretrained/modelFolder.js'
import { orFail } from './failure.js'
import { downloadLines } from './options.js'

/** Finds a model. Returns its folder, and a name of the files that it has now. */
export const locatedModel = async (given: string): Promise<{ readonly base: string; readonly name: string }> => {
  const { folder, adapters } = await orFail(modelFolders(given, { onProgress: downloadLines() }))
  const name = [folder, ...adapters].map((path) => resolve(path)).join('+')
  printError(`loading ${name}\n`)
  return { base: folder, name }
}
