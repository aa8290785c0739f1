// OpenAI's Agents SDK for JavaScript, with Airlock's tools by MCP.
import { Agent, MCPServerStdio, run } from '@openai/agents'

const airlock = new MCPServerStdio({
	command: 'airlock',
	args: ['mcp', '--files', '.', '--output', '.', '--images', '0'],
	env: process.env,
	clientSessionTimeoutSeconds: 60,
})
await airlock.connect()
const agent = new Agent({ name: 'analyst', model: process.env.OPENAI_MODEL, mcpServers: [airlock] })
const answer = await run(agent, 'Which region of sales.csv sells most? Draw the revenue of each as revenue.png.')
console.log(answer.finalOutput)
await airlock.close()
