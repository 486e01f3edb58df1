/** Writes the picture and the tables of docs/demonstration.md: `npm run make -- demonstration`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { readResults } from '../kit/demonstration.js'
import { demonstrationPicture, filledPage, PAGE, PICTURE } from '../kit/demonstrationPage.js'

const results = readResults()
writeFileSync(PICTURE, demonstrationPicture(results))
writeFileSync(PAGE, filledPage(readFileSync(PAGE, 'utf8'), results))
console.log(`${PAGE} shows ${results.length} runs`)
