/**
 * Writes the tables of options, with which `checkOptions` refuses unknown options and wrong kinds,
 * from the types of the options to the `optionKinds.ts` of each folder of `src`: `npm run options`.
 */
import { writeFileSync } from 'node:fs'
import { optionKindsFiles } from './kit/optionKinds.js'
import { publicProgram } from './kit/publicSurface.js'

for (const [path, text] of optionKindsFiles(publicProgram())) writeFileSync(path, text)
