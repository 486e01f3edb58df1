/** The list of rollouts and one rollout. */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { describeInBrowsers, openRollout, usePages } from '../../../../test/kit/viewPages.js'
import { useViewedRuns } from '../../../../test/kit/viewServer.js'
import type { RolloutsAnswer } from '../../src/protocol.js'

/** Strength of the color of each token, for the browser. */
const STRENGTHS = `[...document.querySelectorAll('.tok[data-token]')].map((each) => each.style.getPropertyValue('--q'))`

const count = (page: Page) => page.locator('.head [role="status"]')

const view = useViewedRuns({ first: { steps: 6, prompts: 4, group: 4, trajectories: 16 } })

describeInBrowsers('pages of rollouts', (browser) => {
  const pages = usePages(() => view.origin(), browser)
  const list = async (query = '') => pages.visit(`#/run/${await view.idOf('first')}/rollouts${query}`)
  const rewards = (page: Page) => page.locator('.virtual .c-reward').allInnerTexts()

  it('filters, sorts and searches, and keeps that in the address', async () => {
    const page = await list()
    const [, total] = /^(\d+) of \1 /.exec(await count(page).innerText()) ?? []
    expect(Number(total)).toBeGreaterThan(20)
    await page.getByLabel('Sort by').selectOption('reward')
    await page.getByRole('button', { name: 'Ascending' }).click()
    const isDescending = (values: readonly number[]): boolean =>
      values.length > 2 && values.every((value, i) => i === 0 || value <= values[i - 1]!)
    await expect.poll(async () => isDescending((await rewards(page)).map(Number))).toBe(true)
    await page.getByText('Ranges').click()
    await page.getByLabel('Steps from').fill('6')
    await expect.poll(() => page.locator('.virtual .c-step').allInnerTexts()).not.toContain('1')
    expect(page.url()).toMatch(/sort=reward.*order=desc|order=desc.*sort=reward/)
    expect(page.url()).toContain('minStep=6')
    await page.reload()
    await expect.poll(() => page.locator('.virtual .c-step').allInnerTexts()).not.toContain('1')
    await page.getByRole('button', { name: /Remove the filter Steps from/ }).click()
    await expect.poll(() => count(page).innerText()).toContain(`${total} of ${total}`)
    await page.getByLabel('Search in texts').fill('no rollout has this text')
    await page.getByText('No rollouts match.').waitFor()
  })

  it('moves with the keyboard, opens with Enter and comes back to the same row', async () => {
    const page = await list()
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key)
    expect(await page.locator('.row[aria-current]').getAttribute('data-index')).toBe('2')
    await page.keyboard.press('Enter')
    await page.waitForSelector('.transcript')
    const title = () => page.locator('h1').innerText()
    const opened = await title()
    await page.keyboard.press('j')
    await expect.poll(title).not.toBe(opened)
    await page.keyboard.press('k')
    await expect.poll(title).toBe(opened)
    await page.keyboard.press('u')
    await page.waitForSelector('.virtual')
    await expect.poll(() => page.locator('.row[aria-current]').getAttribute('data-index')).toBe('2')
  })

  it('shows the recorded values of a token, and links to it', async () => {
    const page = await list()
    await openRollout(page, 1)
    const record = JSON.parse(readFileSync(`${view.path('first')}/trajectories.jsonl`, 'utf8').split('\n')[1] ?? '')
    const tokens = page.locator('.tok[data-token]')
    expect(await tokens.count()).toBe(record.tokens.length)
    await tokens.nth(1).hover()
    const probability = `${(100 * Math.exp(record.logProbs[1])).toFixed(2)} %`
    await expect.poll(() => page.locator('.tip').innerText()).toContain(probability)
    await tokens.nth(1).click()
    await page.keyboard.press('ArrowRight')
    await expect.poll(() => page.url()).toContain('token=2')
    await page.mouse.move(1, 1)
    await page.reload()
    await page.locator('.tok[aria-current]').waitFor()
    expect(await page.locator('.tok[aria-current]').getAttribute('data-token')).toBe('2')
    await page.getByText(`Token 3 of turn`).waitFor()
  })

  it('colors tokens by their values', async () => {
    const page = await list()
    await openRollout(page, 1)
    const strengths = (): Promise<string[]> => page.evaluate(STRENGTHS)
    const byLogProb = await strengths()
    expect(new Set(byLogProb).size).toBeGreaterThan(1)
    await page.getByRole('button', { name: 'Text' }).click()
    expect(new Set(await strengths())).toEqual(new Set(['']))
    await page.getByRole('button', { name: 'Advantage' }).click()
    expect(await strengths()).not.toEqual(byLogProb)
    expect(await page.locator('.heat-legend').getAttribute('aria-label')).toContain('Advantage')
  })

  it('plays a rollout token by token and by turns, and then the next one', async () => {
    const page = await list()
    await openRollout(page, 0)
    const hidden = () => page.locator('.tok.later').count()
    const tokens = await page.locator('.tok[data-token]').count()
    expect(await hidden()).toBe(0)
    await page.keyboard.press(',')
    await expect.poll(hidden).toBe(tokens)
    await page.keyboard.press('.')
    await expect.poll(hidden).toBe(0)
    await page.getByLabel('Position').evaluate((range) => {
      Object.assign(range, { value: 2 })
      range.dispatchEvent(new Event('input'))
    })
    await expect.poll(hidden).toBe(tokens - 1) // the task is the first moment, its token the second
    const answer = await fetch(`${view.origin()}/api/runs/first/rollouts?limit=500`)
    const { rows } = (await answer.json()) as RolloutsAnswer // the answer of this path
    const [before, last] = rows.slice(-2)
    const other = await pages.visit(`#/run/first/rollout/${before?.id}`)
    await other.getByLabel('Speed').selectOption('32')
    await other.getByLabel('Go on with the next rollout').check()
    await other.keyboard.press('p')
    await expect.poll(() => other.url(), { timeout: 30_000 }).toContain(`${last?.id}?play=32`)
    await other.getByText('This is the last rollout').waitFor()
    await other.getByRole('button', { name: 'Play' }).waitFor()
  })

  it('shows the group side by side with what differs first', async () => {
    const page = await list()
    await openRollout(page, 0)
    await page.locator('.members').waitFor()
    const members = page.locator('.member')
    expect(await members.count()).toBeGreaterThan(1)
    const texts = await members.locator('.text').allInnerTexts()
    const [open, ...others] = texts
    for (const [i, text] of others.entries()) {
      const mark = members.nth(i + 1).locator('mark')
      if (text === open) expect(await mark.count()).toBe(0)
      else
        expect(
          open?.startsWith(
            await members
              .nth(i + 1)
              .locator('.same')
              .innerText()
              .catch(() => ''),
          ),
        ).toBe(true)
    }
  })

  it('saves labels and a comment in the run folder, and filters by label', async () => {
    const page = await list()
    await openRollout(page, 2)
    await page.getByLabel('Labels').fill('hack odd')
    await page.getByLabel('Comment').fill('It guesses.')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Annotation saved').waitFor()
    expect(readFileSync(`${view.path('first')}/annotations.jsonl`, 'utf8')).toContain('It guesses.')
    await page.reload()
    await expect.poll(() => page.getByLabel('Comment').inputValue()).toBe('It guesses.')
    await page.goto(`${view.origin()}/#/run/${await view.idOf('first')}/rollouts`)
    await page.locator('.filters select').first().selectOption('hack')
    await expect.poll(() => count(page).innerText()).toMatch(/^1 of /)
  })

  it('scores the run again when a weight of the reward changes', async () => {
    const page = await pages.visit(`#/run/${view.idOf('first')}/reward`)
    const mean = () => page.locator('.tile strong').first().innerText()
    const recorded = await mean()
    await page.getByLabel('Weight of rewardAnswer', { exact: true }).fill('5')
    await expect.poll(mean).not.toBe(recorded)
    await page.getByRole('button', { name: 'Reset' }).first().click()
    await expect.poll(mean).toBe(recorded)
  })

  it('exports what is filtered as a data set', async () => {
    const page = await list('?minStep=6')
    const href = await page.getByRole('link', { name: 'Export SFT' }).getAttribute('href')
    const answer = await fetch(`${view.origin()}${href}`)
    const lines = (await answer.text()).trim().split('\n')
    expect(answer.status).toBe(200)
    expect(lines.length).toBeGreaterThan(0)
    for (const line of lines) expect(() => JSON.parse(line)).not.toThrow()
  })
})
