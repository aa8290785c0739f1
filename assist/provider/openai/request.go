package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// request returns a turn as a request of the Responses API. The conversation is sent each
// time, since nothing is stored. Reasoning comes encrypted, so that it can be sent again.
func request(r provider.RunRequest) (p responses.ResponseNewParams, err error) {
	if r.Session == "" && r.Tool != provider.ToolNone && slices.ContainsFunc(
		r.Files, func(a provider.Attachment) bool { return a.File.Ref.Scope == provider.ScopeInline }) {
		return p, invalid("a file that was not uploaded needs a container to be put into; there is none")
	}
	p = responses.ResponseNewParams{
		Model: r.Model,
		Store: sdk.Bool(false),
		// Without it outputs are null (openai-agents-python issue 917).
		Include: []responses.ResponseIncludable{responses.ResponseIncludableCodeInterpreterCallOutputs},
	}
	if reasons(r.Model) {
		p.Include = append(p.Include, responses.ResponseIncludableReasoningEncryptedContent)
	}
	if r.Instructions != "" {
		p.Instructions = sdk.String(r.Instructions)
	}
	if r.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(r.MaxTokens))
	}
	if p.Input.OfInputItemList, err = input(r); err != nil {
		return p, err
	}
	if p.Tools, err = tools(r); err != nil {
		return p, err
	}
	if len(r.Schema) > 0 {
		var schema map[string]any
		if err := json.Unmarshal(r.Schema, &schema); err != nil {
			return p, invalid("the schema is not a JSON object: " + err.Error())
		}
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: cmp.Or(r.SchemaName, "answer"), Schema: schema, Strict: sdk.Bool(true)}
	}
	return p, nil
}

func invalid(message string) error {
	return &provider.Error{Kind: provider.Invalid, Provider: provider.OpenAI, Op: "run", Message: message}
}

// reasons reports whether a model has reasoning to send again. Other models refuse requests
// for it.
func reasons(model string) bool {
	return slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(prefix string) bool {
		return strings.HasPrefix(model, prefix)
	})
}

func input(r provider.RunRequest) (items responses.ResponseInputParam, err error) {
	for i, t := range r.Input {
		if t.Provider == provider.OpenAI && len(t.Raw) > 0 {
			raw, err := exchange.Earlier[json.RawMessage](provider.OpenAI, t)
			if err != nil {
				return nil, err
			}
			for _, item := range raw {
				items = append(items, rawItem(item))
			}
			continue
		}
		files := t.Files
		if i == len(r.Input)-1 {
			files = r.Files
		}
		shown := seen(files)
		if len(shown) == 0 || t.Role != provider.RoleUser {
			items = append(items, responses.ResponseInputItemParamOfMessage(t.Text, responses.EasyInputMessageRole(t.Role)))
			continue
		}
		content := append(responses.ResponseInputMessageContentListParam{
			responses.ResponseInputContentParamOfInputText(t.Text)}, shown...)
		items = append(items, responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRole(t.Role)))
	}
	return items, nil
}

// seen returns the content that shows files to the model: pictures, else documents.
func seen(files []provider.Attachment) (content responses.ResponseInputMessageContentListParam) {
	for _, f := range files {
		switch {
		case !f.See:
		case f.File.Ref.Scope == provider.ScopeInline && strings.HasPrefix(f.File.MIME, "image/"):
			content = append(content, responses.ResponseInputContentUnionParam{
				OfInputImage: &responses.ResponseInputImageParam{Detail: "auto", ImageURL: sdk.String(dataURL(f.File))}})
		case f.File.Ref.Scope == provider.ScopeInline:
			content = append(content, responses.ResponseInputContentUnionParam{
				OfInputFile: &responses.ResponseInputFileParam{Filename: sdk.String(f.File.Name),
					FileData: sdk.String(dataURL(f.File))}})
		case strings.HasPrefix(f.File.MIME, "image/"):
			content = append(content, responses.ResponseInputContentUnionParam{
				OfInputImage: &responses.ResponseInputImageParam{Detail: "auto", FileID: sdk.String(f.File.Ref.ID)}})
		default:
			content = append(content, responses.ResponseInputContentUnionParam{
				OfInputFile: &responses.ResponseInputFileParam{FileID: sdk.String(f.File.Ref.ID)}})
		}
	}
	return content
}

func dataURL(f provider.FileInfo) string {
	return "data:" + f.MIME + ";base64," + base64.StdEncoding.EncodeToString(f.Ref.Inline)
}

// tools returns the tool that runs code, and the caller's functions. Auto is Code
// Interpreter: it is not documented which models support the hosted shell.
func tools(r provider.RunRequest) (list []responses.ToolUnionParam, err error) {
	switch r.Tool {
	case provider.ToolNone:
	case provider.ToolShell:
		env := responses.FunctionShellToolEnvironmentUnionParam{
			OfContainerReference: &responses.ContainerReferenceParam{ContainerID: r.Session}}
		if r.Session == "" {
			env = responses.FunctionShellToolEnvironmentUnionParam{OfContainerAuto: &responses.ContainerAutoParam{
				FileIDs: ids(r)}}
		}
		list = append(list, responses.ToolUnionParam{OfShell: &responses.FunctionShellToolParam{Environment: env}})
	case provider.ToolAuto, provider.ToolPython, "":
		k := responses.ToolCodeInterpreterContainerUnionParam{OfString: sdk.String(r.Session)}
		if r.Session == "" {
			k = responses.ToolCodeInterpreterContainerUnionParam{
				OfCodeInterpreterToolAuto: &responses.ToolCodeInterpreterContainerCodeInterpreterContainerAutoParam{
					FileIDs: ids(r)}}
		}
		list = append(list, responses.ToolUnionParam{OfCodeInterpreter: &responses.ToolCodeInterpreterParam{Container: k}})
	default:
		return nil, invalid("OpenAI has no tool " + string(r.Tool) + "; it has python and shell")
	}
	for _, f := range r.Functions {
		var schema map[string]any
		if err := json.Unmarshal(f.Parameters, &schema); err != nil {
			return nil, invalid("the parameters of function " + f.Name + " are not a JSON object: " + err.Error())
		}
		list = append(list, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: f.Name, Description: sdk.String(f.Description), Parameters: schema, Strict: param.NewOpt(false)}})
	}
	return list, nil
}

// ids returns the ids of all files of the conversation: the service may create a new
// container.
func ids(r provider.RunRequest) (ids []string) {
	for _, t := range r.Input {
		for _, f := range t.Files {
			ids = append(ids, f.File.Ref.ID)
		}
	}
	for _, f := range r.Files {
		ids = append(ids, f.File.Ref.ID)
	}
	return unique(ids)
}

func unique(ids []string) (once []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		if id != "" && !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}
