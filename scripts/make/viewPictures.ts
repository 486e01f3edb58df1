/**
 * Draws the pictures of guide page 6 from a run folder of the recipe wordProblems:
 *
 *     tandem train --steps 30 --checkpoint-every 5 --trajectories 128 --out /tmp/pictured
 *     npm run make -- viewPictures /tmp/pictured
 *     npm run make -- viewPictures /tmp/pictured lab chat
 */
import { basename } from 'node:path'
import { orThrow } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { startView } from '@tandem-rl/view'
import { chromium, type Page } from 'playwright-core'
import { modelDesk } from '../../packages/view/src/modelDesk.js'
import { storedRunOpener } from '../../src/cli/storedRun.js'

const [folder = '', ...wanted] = process.argv.slice(2)
if (folder === '') throw new RangeError('usage: npm run make -- viewPictures RUN_FOLDER [PICTURE...]')
const run = basename(folder)

/** A log of several agents at the same time. */
const TEAM = 'packages/view/test/golden/foreignTeam/traces.jsonl'

const models = modelDesk({ files: liveFiles, timers: liveTimers, openRun: storedRunOpener({}) })
const server = orThrow(
  await startView({ files: liveFiles, timers: liveTimers, folders: [folder, TEAM], port: 0, models })(),
)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
})

/** Opens a view of a run, prepares it and draws it. */
const draw = async (name: string, hash: string, prepare: (page: Page) => Promise<unknown>, id = run): Promise<void> => {
  if (wanted.length > 0 && !wanted.includes(name)) return
  const page = await browser.newPage({ viewport: { width: 1360, height: 860 }, reducedMotion: 'reduce' })
  page.setDefaultTimeout(600_000)
  await page.goto(`${server.url}/#/run/${id}${hash}`)
  await page.waitForSelector('h1')
  await prepare(page)
  await page.waitForTimeout(500)
  await page.screenshot({ path: `docs/images/view-${name}.png` })
  await page.close()
  process.stdout.write(`docs/images/view-${name}.png\n`)
}

/** Opens the longest rollout, and one of its tokens. */
const chooseToken = async (page: Page, token: number): Promise<void> => {
  await page.locator('.virtual a.row').first().click()
  await page.locator(`.tok[data-token="${token}"]`).click()
}

const LONGEST = '/rollouts?sort=length&order=desc'

const nothing = async (): Promise<void> => undefined

await draw('run', '', nothing)
await draw('rollouts', '/rollouts', nothing)
await draw('rollout', LONGEST, (page) => chooseToken(page, 6))
await draw('reward', '/reward', nothing)
await draw('health', '/health', nothing)
await draw('agents', '/rollouts', (page) => page.locator('.virtual a.row').nth(2).click(), basename(TEAM))
await draw('token', LONGEST, async (page) => {
  await page.setViewportSize({ width: 1360, height: 1500 })
  await chooseToken(page, 1)
  await page.keyboard.press('w')
  await page.getByRole('region', { name: 'Probability by checkpoint' }).waitFor()
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' })
  await page.getByText('Which rollouts moved it?').click()
  await page.getByLabel('After').selectOption('0')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByRole('region', { name: 'Rollouts that moved the token most' }).waitFor()
})
await draw('lab', '/lab', async (page) => {
  await page.getByLabel('Tasks').fill('100')
  await page.getByRole('button', { name: 'Compare' }).click()
  await page.getByText(/95 % interval/).waitFor()
})
await draw('chat', '/chat', async (page) => {
  await page.getByLabel('Message').fill('Tom has 3 apples and buys 4 more. How many apples does he have?')
  await page.keyboard.press('Enter')
  await page.locator('.chat .by-model .tok').nth(3).waitFor()
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'visible' })
  await page.waitForTimeout(3000)
})
await browser.close()
await models.close()
await server.close({ graceMs: 0, atLimit: async () => {}, cutMs: 0 })
